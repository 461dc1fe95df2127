#define W 8
#define PEXT 0
#define SUFFIX _8
#include "engine.h"

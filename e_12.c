#define W 12
#define PEXT 0
#define SUFFIX _12
#include "engine.h"

#define W 1
#define PEXT 0
#define SUFFIX _1
#include "engine.h"

#define W 64
#define PEXT 0
#define SUFFIX _64
#include "engine.h"

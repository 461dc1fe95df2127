#define W 32
#define PEXT 0
#define SUFFIX _32
#include "engine.h"

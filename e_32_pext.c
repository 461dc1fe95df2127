#define W 32
#define PEXT 1
#define SUFFIX _32_pext
#include "engine.h"

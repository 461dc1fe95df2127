#define W 64
#define PEXT 1
#define SUFFIX _64_pext
#include "engine.h"

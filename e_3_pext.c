#define W 3
#define PEXT 1
#define SUFFIX _3_pext
#include "engine.h"

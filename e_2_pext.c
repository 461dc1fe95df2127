#define W 2
#define PEXT 1
#define SUFFIX _2_pext
#include "engine.h"

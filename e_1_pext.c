#define W 1
#define PEXT 1
#define SUFFIX _1_pext
#include "engine.h"

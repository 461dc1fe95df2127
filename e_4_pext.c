#define W 4
#define PEXT 1
#define SUFFIX _4_pext
#include "engine.h"

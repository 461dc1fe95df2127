#define W 6
#define PEXT 1
#define SUFFIX _6_pext
#include "engine.h"

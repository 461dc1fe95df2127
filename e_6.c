#define W 6
#define PEXT 0
#define SUFFIX _6
#include "engine.h"

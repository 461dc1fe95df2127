#define W 4
#define PEXT 0
#define SUFFIX _4
#include "engine.h"

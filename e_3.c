#define W 3
#define PEXT 0
#define SUFFIX _3
#include "engine.h"

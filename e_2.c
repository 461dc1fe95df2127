#define W 2
#define PEXT 0
#define SUFFIX _2
#include "engine.h"

#define W 5
#define PEXT 0
#define SUFFIX _5
#include "engine.h"

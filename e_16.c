#define W 16
#define PEXT 0
#define SUFFIX _16
#include "engine.h"

#define W 24
#define PEXT 0
#define SUFFIX _24
#include "engine.h"

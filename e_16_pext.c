#define W 16
#define PEXT 1
#define SUFFIX _16_pext
#include "engine.h"

#define W 5
#define PEXT 1
#define SUFFIX _5_pext
#include "engine.h"

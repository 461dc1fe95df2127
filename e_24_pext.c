#define W 24
#define PEXT 1
#define SUFFIX _24_pext
#include "engine.h"

// Planted fault: memory that nothing points to at exit. The program itself succeeds.

#include <stdlib.h>

int main(void) {
    void *volatile lost = malloc(64);
    lost = NULL;
    return 0;
}

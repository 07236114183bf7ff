// Planted fault: signed overflow. Without -fno-sanitize-recover it would print and succeed.

#include <limits.h>

int main(void) {
    volatile int most = INT_MAX;
    volatile int sum = most + 1;
    return sum == 0;
}

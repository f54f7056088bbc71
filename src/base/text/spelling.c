#include "base/text/spelling.h"

#include <string.h>

#include "base/assert.h"

enum { MOST = 64 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

int haul__spelling_distance(const char *a, const char *b)
{
    unsigned char d[MOST][MOST]; /* of the first i letters of a and the first j of b */
    size_t        n = strlen(a), m = strlen(b);
    if (n >= MOST || m >= MOST)
        return MOST;
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = (unsigned char)(i + j);
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = least(best, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = least(best, d[i - 2][j - 2] + 1);
            d[i][j] = (unsigned char)best;
        }
    HAUL__ASSERT(d[n][m] <= (n > m ? n : m) && d[n][m] >= (n > m ? n - m : m - n));
    return d[n][m];
}

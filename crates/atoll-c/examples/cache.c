/* Two processes share a cache: see include/atoll.h for how it is built.
 *
 *   ./cache shm:/NAME
 */
#include "atoll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, atoll_error());
    return EXIT_FAILURE;
}

/* What a child does that was forked while the cache was open. */
static int child(atoll_cache *inherited, const char *address) {
    if (atoll_get(inherited, "user:7", 6, NULL, 0, NULL) != ATOLL_FORKED) return EXIT_FAILURE;
    atoll_close(inherited);
    atoll_cache *cache;
    if (atoll_open(address, NULL, &cache) < 0) return failed("the child's open");
    int status = atoll_incr(cache, "visits", 6, 1, 0, NULL);
    atoll_close(cache);
    return status == ATOLL_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int count, char **arguments) {
    if (count != 2) return EXIT_FAILURE;
    struct atoll_options options = ATOLL_OPTIONS;
    options.capacity_bytes = 16 << 20;
    atoll_cache *cache;
    if (atoll_open(arguments[1], &options, &cache) < 0) return failed("open");

    if (atoll_set(cache, "user:7", 6, "alice", 5, 60 * 1000) < 0) return failed("set");
    char name[16];
    size_t bytes;
    switch (atoll_get(cache, "user:7", 6, name, sizeof name, &bytes)) {
    case ATOLL_OK: printf("user:7 is %.*s\n", (int)bytes, name); break;
    case ATOLL_MISS: printf("user:7 is absent\n"); break;
    default: return failed("get");
    }

    if (atoll_incr(cache, "visits", 6, 1, 0, NULL) < 0) return failed("incr");
    pid_t process = fork();
    if (process == 0) _exit(child(cache, arguments[1]));
    int status;
    waitpid(process, &status, 0);
    if (status != 0) return EXIT_FAILURE;
    void *visits;
    if (atoll_get_allocated(cache, "visits", 6, &visits, &bytes) != ATOLL_OK) return failed("get");
    printf("%.*s visits\n", (int)bytes, (char *)visits);
    free(visits);

    struct atoll_lookup lookups[] = {
        {"user:7", 6, name, sizeof name, 0, 0}, {"user:8", 6, NULL, 0, 0, 0}, {"visits", 6, NULL, 0, 0, 0}};
    if (atoll_get_many(cache, lookups, 3) < 0) return failed("get_many");
    for (int index = 0; index < 3; index++)
        printf("%s: status %d, %zu bytes\n", (const char *)lookups[index].key, lookups[index].status,
               lookups[index].value_bytes);
    if (atoll_incr(cache, "user:7", 6, 1, 0, NULL) == ATOLL_NUMBER) printf("%s\n", atoll_error());
    atoll_close(cache);
    return EXIT_SUCCESS;
}

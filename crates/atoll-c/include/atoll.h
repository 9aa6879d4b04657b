/* Atoll: one cache for all processes of a host, at memory speed. No server runs.
 *
 *   cargo build --release -p atoll-c
 *   cc -Icrates/atoll-c/include program.c target/release/libatoll_c.a -lpthread -ldl -lm
 *
 * Every operation returns one of the values of `enum atoll_status`. Those below zero are errors;
 * atoll_error() says what happened and what to do. An error changes nothing, except ATOLL_LOST, after
 * which it is not known whether a change took place.
 *
 * Threads: any number of threads may use one cache at once. atoll_close() is for the last one: no
 * other thread may be in an operation of that cache, or begin one.
 *
 * Forks: a child does not go on with its parent's cache. Every operation of it is ATOLL_FORKED. The
 * child closes what it inherited, which does not harm the parent, and opens the pool itself.
 *
 * Keys have at most 65536 bytes, and may hold any byte. A key or a value of no bytes may be NULL.
 * Memory that is given to an operation must stay valid, and no other thread may write it, until the
 * operation returns; nothing of it is kept.
 */
#ifndef ATOLL_H
#define ATOLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum atoll_status {
    ATOLL_OK = 0,
    ATOLL_MISS = 1,       /* the key is absent */
    ATOLL_EXISTS = 2,     /* atoll_add: the key is present, and was left as it is */
    ATOLL_SHORT = 3,      /* the value is longer than the buffer, which was not written */
    ATOLL_INVALID = -1,   /* an argument: NULL, a length, an address, an option */
    ATOLL_TOO_LARGE = -2, /* the key or the value is larger than the pool takes */
    ATOLL_FULL = -3,      /* no room for an object, for a client, or no memory left on the host */
    ATOLL_NUMBER = -4,    /* atoll_incr: the value is no number, or the sum exceeds 64 bits */
    ATOLL_KIND = -5,      /* the value is of another kind, such as a hash of a Redis client */
    ATOLL_ABSENT = -6,    /* there is no pool of this address */
    ATOLL_OPEN = -7,      /* the pool cannot be opened or created */
    ATOLL_LOST = -8,      /* the pool's memory is gone, or this process was shut out of it */
    ATOLL_DAMAGED = -9,   /* the pool holds bytes that no client wrote */
    ATOLL_FORKED = -10,   /* this process is a fork of the one that opened the cache */
    ATOLL_BUG = -11       /* a bug of Atoll; please report the text */
};

/* A cache that this process has open. */
typedef struct atoll_cache atoll_cache;

/* Begin with `struct atoll_options options = ATOLL_OPTIONS;` and change what is to differ. */
struct atoll_options {
    size_t struct_bytes;     /* sizeof(struct atoll_options) */
    uint64_t capacity_bytes; /* of a new pool; 0: 256 MiB. A pool that is there keeps its own. */
    uint32_t clients_max;    /* of a new pool: the most clients of all processes; 0: the default */
    uint32_t clients;        /* threads of this process at a time; 0: 4 */
    int create;              /* 0: a pool that is not there is ATOLL_ABSENT */
};

#define ATOLL_OPTIONS {sizeof(struct atoll_options), 0, 0, 0, 1}

/* The text of this thread's last error, until its next operation; "" if there was none. */
const char *atoll_error(void);

/* Opens the pool of an address of this host, such as "shm:/app" or the path of a file, or creates it. `options` may be NULL. */
int atoll_open(const char *address, const struct atoll_options *options, atoll_cache **cache);

/* Leaves the pool, which stays. NULL is allowed. */
void atoll_close(atoll_cache *cache);

/* Copies a value into `buffer`, which has `buffer_bytes`. `value_bytes` gets the value's length, also
 * with ATOLL_SHORT; it may be NULL. Large values are copied once, straight from the pool. After
 * ATOLL_MISS any bytes may be in the buffer. */
int atoll_get(atoll_cache *cache, const void *key, size_t key_bytes, void *buffer, size_t buffer_bytes,
              size_t *value_bytes);

/* Copies a value into memory of its length, which the caller frees by free(). */
int atoll_get_allocated(atoll_cache *cache, const void *key, size_t key_bytes, void **value,
                        size_t *value_bytes);

/* Sets a key for `ttl_ms` milliseconds; 0: until it is evicted. */
int atoll_set(atoll_cache *cache, const void *key, size_t key_bytes, const void *value, size_t value_bytes,
              uint64_t ttl_ms);

/* The same if the key is absent; otherwise ATOLL_EXISTS. */
int atoll_add(atoll_cache *cache, const void *key, size_t key_bytes, const void *value, size_t value_bytes,
              uint64_t ttl_ms);

/* Removes a key. */
int atoll_delete(atoll_cache *cache, const void *key, size_t key_bytes);

/* Adds `by` to the decimal number at a key, in one step for all processes. An absent key counts as 0 and
 * is created with this time to live. `sum` may be NULL. */
int atoll_incr(atoll_cache *cache, const void *key, size_t key_bytes, int64_t by, uint64_t ttl_ms,
               int64_t *sum);

/* One of many lookups. */
struct atoll_lookup {
    const void *key;
    size_t key_bytes;
    void *buffer;
    size_t buffer_bytes;
    size_t value_bytes; /* set by the call: the value's length */
    int status;         /* set by the call: ATOLL_OK, ATOLL_MISS or ATOLL_SHORT */
};

/* Looks many keys up, which is faster together. If it is an error, no status is valid. */
int atoll_get_many(atoll_cache *cache, struct atoll_lookup *lookups, size_t count);

/* One of many values. */
struct atoll_item {
    const void *key;
    size_t key_bytes;
    const void *value;
    size_t value_bytes;
};

/* Sets many keys, in their order. If one cannot be set, those before it are. `done` gets how many were
 * set; it may be NULL. */
int atoll_set_many(atoll_cache *cache, const struct atoll_item *items, size_t count, uint64_t ttl_ms,
                   size_t *done);

#ifdef __cplusplus
}
#endif

#endif

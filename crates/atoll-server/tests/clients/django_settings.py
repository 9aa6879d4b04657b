"""The settings with which Django's own tests of its caches run. The addresses come from the environment."""

import os

DATABASES = {name: {"ENGINE": "django.db.backends.sqlite3"} for name in ("default", "other")}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
SECRET_KEY = "of tests"
USE_TZ = False
MEMCACHED = "127.0.0.1:" + os.environ["MEMCACHED_PORT"]
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "redis": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:" + os.environ["REDIS_PORT"],
    },
    "pymemcache": {"BACKEND": "django.core.cache.backends.memcached.PyMemcacheCache", "LOCATION": MEMCACHED},
    "pylibmc": {"BACKEND": "django.core.cache.backends.memcached.PyLibMCCache", "LOCATION": MEMCACHED},
}

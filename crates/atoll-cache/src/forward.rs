//! Engines around another engine: what they leave as it is.

/// Implements the methods of [`Engine`](crate::Engine) that an engine around another one, in its
/// field of that name, passes on: all but `get`, `peek`, `update` and those that have a default.
#[macro_export]
macro_rules! forward_engine {
    ($inner:ident) => {
        async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, each: F) -> Result<u64, $crate::CacheError> {
            self.$inner.scan(cursor, count, each).await
        }

        async fn random_key(&self) -> Result<Option<Vec<u8>>, $crate::CacheError> {
            self.$inner.random_key().await
        }

        async fn flush(&self) -> Result<u64, $crate::CacheError> {
            self.$inner.flush().await
        }

        async fn objects(&self) -> Result<u64, $crate::CacheError> {
            self.$inner.objects().await
        }

        async fn now_ms(&self) -> Result<u64, $crate::CacheError> {
            self.$inner.now_ms().await
        }

        fn value_bytes_max(&self) -> usize {
            self.$inner.value_bytes_max()
        }

        fn stats(&self) -> $crate::Stats {
            self.$inner.stats()
        }
    };
}

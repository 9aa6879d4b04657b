//! Commands on keys, independent of their values. A command on several keys is not one atomic step.

use super::{Context, Outcome, string};
use atoll_cache::Engine;

/// `DEL key...` and `UNLINK key...`
pub async fn del<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let mut removed = 0;
    for key in c.args.from(1) {
        removed += usize::from(c.cache.delete(key).await?);
    }
    c.reply.count(removed);
    Ok(())
}

/// `EXISTS key...`
pub async fn exists<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let mut found = 0;
    for key in c.args.from(1) {
        found += usize::from(c.cache.peek(key).await?.is_some());
    }
    c.reply.count(found);
    Ok(())
}

/// `TOUCH key...`: an access is counted as for a lookup.
pub async fn touch<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let mut found = 0;
    for key in c.args.from(1) {
        found += usize::from(c.cache.get(key, c.value).await?);
        string::forget(c.value);
    }
    c.reply.count(found);
    Ok(())
}

/// `TYPE key`
pub async fn kind<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let there = c.cache.peek(c.args.get(1)).await?.is_some();
    c.reply.simple(if there { "string" } else { "none" });
    Ok(())
}

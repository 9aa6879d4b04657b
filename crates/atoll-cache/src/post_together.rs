//! Several batches at once: where memory is far, they take one round trip together.

use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Endpoint, VerbError};
use std::future::poll_fn;
use std::task::Poll;

/// Posts all of them, and waits for all. If some fail, gives the first error.
pub(crate) async fn post_together<E: Endpoint>(endpoint: &E, batches: &mut [Batch]) -> Result<(), VerbError> {
    if let [batch] = batches {
        return endpoint.post(batch).await;
    }
    let mut posts: Vec<_> = batches.iter_mut().map(|batch| Some(Box::pin(endpoint.post(batch)))).collect();
    let mut outcome = Ok(());
    poll_fn(|context| {
        let mut are_done = true;
        for post in &mut posts {
            match post.as_mut().map(|post| post.as_mut().poll(context)) {
                Some(Poll::Ready(ended)) => {
                    *post = None;
                    outcome = std::mem::replace(&mut outcome, Ok(())).and(ended);
                }
                Some(Poll::Pending) => are_done = false,
                None => {}
            }
        }
        if are_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outcome
}

/// READs words, in their order.
pub(crate) async fn read_words<E: Endpoint>(
    endpoint: &E,
    words: impl Iterator<Item = Address>,
) -> Result<Vec<u64>, VerbError> {
    let (mut batches, mut read) = (Vec::new(), Vec::new());
    let most = endpoint.limits().batch_verbs_max.min(BATCH_VERBS_MAX);
    for at in words {
        if batches.last().is_none_or(|batch: &Batch| batch.len() == most) {
            batches.push(Batch::new());
        }
        let place = batches.len() - 1;
        read.push((place, batches[place].read_word(at)));
    }
    post_together(endpoint, &mut batches).await?;
    Ok(read.into_iter().map(|(place, ticket)| batches[place].word(ticket)).collect())
}

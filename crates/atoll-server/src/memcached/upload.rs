//! Requests whose data is stored while it arrives: `set` and its relatives, and `ms`.
//!
//! The line is kept until the data has arrived. Then the request runs like any other. What becomes
//! a part of a value that is there is collected in memory as before.

use super::parser::store_line;
use super::request::{self, How, Line, Request, Store};
use super::{Context, Inner, State, run_one, stored};
use crate::redis::isolation::Batch;
use crate::serve::Output;
use crate::serve::protocol::{Client, Ended};
use crate::serve::upload::Upload;
use atoll_cache::{Engine, Value};

/// A request whose data arrives.
pub(super) struct Arriving {
    /// Without its end.
    line: Vec<u8>,
    /// As the cache knows it.
    key: Vec<u8>,
    upload: Upload,
    /// What has arrived of the line break behind the data.
    end: Vec<u8>,
}

impl Arriving {
    /// Bytes that are to be read next.
    pub(super) fn bytes_expected(&self) -> usize {
        self.upload.bytes_expected()
    }
}

/// Whether the data becomes the value.
fn is_value(store: &Store<'_>) -> bool {
    let refills = store.cas.is_some() && store.meta.is_some_and(|flags| flags.invalidates);
    matches!(store.how, How::Set | How::Add | How::Replace) && !refills
}

/// Begins to store the data of the request that `bytes` begin with. Returns how many bytes came
/// before the data.
pub(super) fn begin<G: Engine>(inner: &Inner, state: &mut State, client: Client<'_, G>, bytes: &[u8]) -> Option<usize> {
    let (line, start) = store_line(bytes)?;
    let Line::WithData(store, data) = request::parse(line) else { return None };
    if !is_value(&store) {
        return None;
    }
    let key = stored(inner.database(), store.key, store.meta.is_some_and(|flags| flags.is_binary));
    let upload = Upload::begin(client.cache, &key, data)?;
    let (line, key) = (line.to_vec(), key.into_owned());
    state.arriving = Some(Box::new(Arriving { line, key, upload, end: Vec::with_capacity(2) }));
    state.handle.upload.begin();
    Some(start)
}

/// Takes what has arrived of such a request, moves `start` behind it, and runs the request once it
/// has arrived. `None` when it has run.
pub(super) async fn take<G: Engine>(
    (inner, batch): (&Inner, &Batch<'_>),
    (state, value, new): (&mut State, &mut Value, &mut Vec<u8>),
    client: Client<'_, G>,
    input: &[u8],
    start: &mut usize,
    output: &mut Output,
) -> Option<Ended> {
    let arriving = state.arriving.as_deref_mut()?;
    let arrived = &input[*start..];
    if arrived.is_empty() {
        return Some(Ended::Drained);
    }
    if !arriving.upload.is_whole() {
        let taken = arriving.upload.take(client.cache, arrived).await;
        state.handle.upload.add(taken);
        *start += taken;
        return Some(Ended::Full);
    }
    let taken = (2 - arriving.end.len()).min(arrived.len());
    arriving.end.extend_from_slice(&arrived[..taken]);
    *start += taken;
    if arriving.end.len() < 2 {
        return Some(Ended::Drained);
    }
    let Arriving { line, key, upload, end } = *state.arriving.take().expect("it has just been there");
    state.handle.upload.end();
    let Line::WithData(store, _) = request::parse(&line) else { unreachable!("the line has been read before") };
    let (request, upload) = match end.as_slice() {
        b"\r\n" => (Request::Store(store), Some(upload)),
        _ => (request::bad_chunk(store.noreply), None),
    };
    if inner.redis.isolation.has_locked_keys() {
        batch.until_unlocked(&[key]).await;
    }
    let context = Context { client, batch, inner, database: inner.database(), value, new, upload, output };
    batch.passing(std::pin::pin!(run_one(context, request))).await;
    None
}

//! GETs that follow each other in a pipeline: they are looked up together.
//!
//! Each of them takes effect between the arrival of the first and the reply of the last, as if it
//! ran alone. A GET whose lookup fails runs again by itself, and reports the error. So does one in
//! front of whose value the lookups end, because it is so large: it is read while it is sent.

use super::Spoken;
use super::ahead::Ahead;
use super::command::{self, Id};
use super::instance::Instance;
use super::kind::Kind;
use super::peers::Last;
use super::resp::Reply;
use crate::serve::Output;
use crate::serve::protocol::{Client, OUTPUT_BYTES_MAX};
use atoll_cache::{Engine, Value};

/// Runs the GETs from command `index` on, if there are at least two. Returns how many have their
/// reply.
pub(super) async fn run<G: Engine>(
    instance: &Instance,
    Spoken { parser, session, .. }: &mut Spoken,
    (ahead, index): (&Ahead, usize),
    client: Client<'_, G>,
    input: &[u8],
    output: &mut Output,
) -> usize {
    if !ahead.has_gets(index) {
        return 0;
    }
    let keys = ahead.gets(index, parser, input);
    if keys.len() < 2 {
        return 0;
    }
    session.last = Last::command(Id::Get);
    let began = client.tally.borrow().begin_many(keys.len());
    let mut reply = Reply::new(output, session.protocol);
    let (mut replied, mut missed, mut refused) = (0, 0, 0);
    let found = |index, value: Option<&mut Value>| {
        // What would be too much to send is looked up again.
        if index > replied || reply.is_enough() {
            return;
        }
        replied += 1;
        match value {
            Some(value) => match Kind::STRING.check(value.meta()) {
                Ok(()) => reply.value(value),
                Err(error) => {
                    refused += 1;
                    command::refuse(&error, &mut client.tally.borrow_mut(), &mut reply);
                }
            },
            None => {
                missed += 1;
                reply.null();
            }
        }
    };
    let database = instance.databases.get(session.database);
    let looked =
        database.with_stored(&keys, async |keys| client.cache.get_many_within(keys, OUTPUT_BYTES_MAX, found).await);
    // The command whose lookup failed has no reply yet.
    let _ = std::pin::pin!(looked).await;
    let mut tally = client.tally.borrow_mut();
    tally.calls[Id::Get as usize] += replied as u64;
    tally.failed[Id::Get as usize] += refused;
    tally.keys_found += replied as u64 - missed;
    tally.keys_missed += missed;
    tally.end_many(Id::Get as usize, replied, began);
    replied
}

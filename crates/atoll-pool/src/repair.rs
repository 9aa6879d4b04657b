//! Reclaiming what a dead client held.
//!
//! Every client checks the other clients' leases now and then. If a lease stands still, it asks
//! whether the client is dead. If it is, or the fabric has shut it out, its place becomes Fenced
//! (see [`registry`]). The client that fenced it reclaims what the dead one held. If that repairer
//! dies, too, another client repairs after [`help_ns`](registry::Times). Until a place is Fenced,
//! no client touches what its client could still write.
//!
//! A dead client leaves no log of its operations: every chunk names its owner. What else a client
//! may have held depends on what it used the pool for. A tenant describes that as an [`Estate`].
//!
//! | step | by |
//! |---|---|
//! | READ the places, then all descriptors, then the places again: which clients live | `reclaim` |
//! | chunks that a dead client was giving back to the host become Retired | `reclaim` |
//! | chunks and all else that dead clients owned get a new owner, or become free | [`Estate::settle`] |
//! | places become Free whose clients own nothing any more | `reclaim` |
//! | counts are made anew, if no other client changes them meanwhile | [`recount`] |
//!
//! Every step is one compare-and-swap from what was seen. So several clients may repair at once,
//! and any of them may die.

use crate::chunks::Descriptor;
use crate::client::Client;
use crate::registry::{self, Lookups, Place, PlaceState, Roll};
use crate::retirement::{self, DISCARDS_IN_ROUND};
use crate::words::read_word;
use crate::{ChunkState, PoolError, Repaired, loss};
use atoll_fabric::{Batch, Endpoint, VerbError};

/// After a client was shut out, a client READs all places for this many suspicion times.
const THOROUGH: u64 = 4;

/// What a repairer READs of the pool before it settles anything.
#[derive(Debug)]
pub struct Seen {
    /// The places, READ before the descriptors.
    pub places: Vec<Place>,
    /// The descriptors of all chunks.
    pub descriptors: Vec<Descriptor>,
    /// The clients that were alive after the descriptors had been READ.
    pub roll: Roll,
}

impl Seen {
    /// The places that were Fenced.
    pub fn fenced(&self) -> Vec<Place> {
        self.places.iter().filter(|place| place.state == PlaceState::Fenced).copied().collect()
    }
}

/// What a client may have held when it died, and how to settle it. A tenant of the pool has one.
///
/// A method may be called again for what it has settled in part: by this client after an error, or
/// by another client after this client's death.
#[allow(async_fn_in_trait)]
pub trait Estate {
    /// The endpoint of the client.
    type Endpoint: Endpoint;
    /// The error of a failed repair.
    type Error: From<VerbError> + From<PoolError>;

    /// The client that repairs.
    fn client(&self) -> &Client<Self::Endpoint>;

    /// Settles what clients held that are not alive by `seen`: their chunks, and all else that
    /// their words name. Returns how many chunks that were, and the places of `seen` whose clients
    /// own nothing any more. A place that was not Fenced then is left to the next repair: its
    /// client may own what `seen` lacks.
    async fn settle(&self, seen: &Seen) -> Result<(u64, Vec<Place>), Self::Error>;

    /// Whether this client took over what it has not settled yet.
    fn has_unsettled(&self) -> bool {
        false
    }

    /// Makes every word empty that points into an absent memory node, and reclaims what only words
    /// on such a node named. No client uses the pool, and dead clients hold nothing. Other clients
    /// may do the same meanwhile. `false` if something is left, so that it is called again.
    async fn forget_absent(&self) -> Result<bool, Self::Error>;

    /// Settles what only this client can settle of its own; returns how many chunks it reclaimed.
    async fn settle_own(&self) -> Result<u64, Self::Error> {
        Ok(0)
    }

    /// Live objects, counted one by one.
    async fn count_objects(&self) -> Result<u64, Self::Error>;

    /// How many lookups of this client have found their key, and how many have not.
    fn lookups(&self) -> Lookups;

    /// Objects that running operations of this client have counted and not inserted yet.
    fn objects_reserved(&self) -> u64;

    /// Recounts what the tenant counts besides objects and free chunks, if that may be wrong.
    async fn recount_own(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called when everything was recounted.
    async fn counted_anew(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Notes how many clients have died so far.
    async fn note_deaths(&self, deaths: u64) -> Result<(), Self::Error> {
        let _ = deaths;
        Ok(())
    }

    /// What this client publishes in every round, before it announces the round. A client that sees
    /// the round relies on it, so it must have landed when this ends.
    async fn begin_round(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// What this client does in every round, after the announcement.
    async fn end_round(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// What this client does after it has checked the other clients.
    async fn end_look(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Makes the place of a client Fenced that stood still, if the client can be shut out; returns
    /// whether it did.
    async fn fence_suspect(&self, place: &Place) -> Result<bool, VerbError> {
        let client = self.client();
        registry::fence_suspect(&client.endpoint, &client.pool, place).await
    }
}

/// Completes a join. A client that acquired a shut-out client's place reclaims what that client
/// held. A client that finds all other clients gone or at rest recounts, if a client has died.
pub async fn settle_in<S: Estate>(estate: &S) -> Result<(), S::Error> {
    Box::pin(loss::recover(estate)).await?;
    let client = estate.client();
    let places = registry::places(&client.endpoint, &client.pool).await?;
    let is_left_behind = |place: &Place| place.state == PlaceState::Fenced;
    if estate.has_unsettled() || client.member().took_over || places.iter().any(is_left_behind) {
        let repaired = Box::pin(reclaim(estate)).await?;
        estate.client().unreported.set(repaired);
        return Ok(());
    }
    Box::pin(recount(estate)).await.map(drop)
}

/// Makes a round: announces that this client is alive, and now and then checks the clients that may
/// be dead.
pub async fn round<S: Estate>(estate: &S) -> Result<(), S::Error> {
    estate.client().usable()?;
    if !estate.client().is_member() {
        return Ok(());
    }
    let client = estate.client();
    client.check_membership().await?;
    // Another operation of this client is making a round.
    let Some(_round) = client.round.lend() else { return Ok(()) };
    let turn = client.in_flight().turn();
    estate.begin_round().await?;
    // Operations are announced as ended only after the verbs that they posted have landed.
    client.endpoint.flush().await?;
    client.member().renew(&client.endpoint, client.in_flight().rounds(turn));
    // A client that sees the new lease relies on this: the next operation READs later.
    client.endpoint.flush().await?;
    estate.end_round().await?;
    if !estate.client().is_look_due() {
        return Ok(());
    }
    estate.client().tell_lookups(estate.lookups());
    estate.client().check_nodes().await?;
    estate.client().learn_nodes().await?;
    let repaired = Box::pin(look(estate, false)).await?;
    let client = estate.client();
    let mut unreported = client.unreported.get();
    unreported += repaired;
    client.unreported.set(unreported);
    Box::pin(client.discard_retired(DISCARDS_IN_ROUND)).await?;
    estate.end_look().await
}

/// Checks all other clients now, whether they stand still or not, and reclaims what dead ones held.
/// It harms no client whose lease moves. It also reports what this client has reclaimed since it
/// joined.
pub async fn repair<S: Estate>(estate: &S) -> Result<Repaired, S::Error> {
    let mut repaired = estate.client().unreported.take();
    repaired += look(estate, true).await?;
    Ok(repaired)
}

/// A repair that a user asks for, by this client's own `repair` and `tend`. Where memory is far, it
/// cannot always be seen whether a client is dead: its host may have vanished. So this watches the
/// other clients for the time after which one that stands still is suspected, and repairs again.
/// That shuts out those which the home's agent has not heard for its lease either.
pub async fn repair_watching<E: Endpoint, X: From<VerbError>>(
    client: &Client<E>,
    repair: impl AsyncFn() -> Result<Repaired, X>,
    tend: impl AsyncFn() -> Result<(), X>,
) -> Result<Repaired, X> {
    let mut repaired = repair().await?;
    let (endpoint, me, suspect_ns) = (&client.endpoint, client.me(), client.times().suspect_ns);
    let is_another = |place: &Place| place.state != PlaceState::Free && place.incarnation != me;
    if endpoint.is_near() || !registry::places(endpoint, &client.pool).await?.iter().any(is_another) {
        return Ok(repaired);
    }
    let until_ns = endpoint.now_ns().saturating_add(suspect_ns);
    while endpoint.now_ns() < until_ns {
        // Others must not see this client stand still meanwhile.
        endpoint.pause(suspect_ns / 8).await;
        tend().await?;
    }
    repaired += repair().await?;
    Ok(repaired)
}

async fn look<S: Estate>(estate: &S, everybody: bool) -> Result<Repaired, S::Error> {
    let mut repaired = Repaired::default();
    let is_left_behind = fence(estate, everybody, &mut repaired.clients).await?;
    repaired.chunks += Box::pin(estate.settle_own()).await?;
    if everybody || is_left_behind || estate.has_unsettled() {
        repaired += Box::pin(reclaim(estate)).await?;
    } else {
        let (deaths, _) = estate.client().deaths().await?;
        estate.note_deaths(deaths).await?;
    }
    Ok(repaired)
}

/// Makes the places of dead clients Fenced, and counts them. Returns whether a Fenced place waits
/// for this client's repair.
pub(crate) async fn fence<S: Estate>(estate: &S, everybody: bool, fenced: &mut u64) -> Result<bool, S::Error> {
    let client = estate.client();
    let (me, times, asked_ns) = (client.me(), client.times(), client.endpoint.now_ns());
    let places = match everybody {
        true => registry::places(&client.endpoint, &client.pool).await?,
        false => look_at_neighbours(client).await?,
    };
    let told_ns = client.endpoint.now_ns();
    let mut is_left_behind = false;
    for place in places.iter().filter(|place| place.incarnation.slot != me.slot) {
        let client = estate.client();
        let still_ns = client.watch.borrow_mut().still_ns(place, asked_ns, told_ns);
        match place.state {
            PlaceState::Taken | PlaceState::Joining => {
                let is_fenced = match still_ns >= times.suspect_ns {
                    // It may have made a round since that READ: shutting out the clients before it
                    // takes time.
                    true if !registry::is_still(&client.endpoint, &client.pool, place).await? => false,
                    true => estate.fence_suspect(place).await?,
                    false if everybody => registry::fence_dead(&client.endpoint, &client.pool, place).await?,
                    false => false,
                };
                *fenced += u64::from(is_fenced);
                is_left_behind |= is_fenced;
            }
            PlaceState::Fenced => is_left_behind |= still_ns >= times.help_ns,
            PlaceState::Free => {}
        }
    }
    let client = estate.client();
    client.count_upkeep(|upkeep| upkeep.clients_fenced += *fenced);
    if is_left_behind {
        // Long enough to find a client that stands still from now on.
        let until_ns = client.endpoint.now_ns().saturating_add(THOROUGH * times.suspect_ns.max(times.look_ns));
        client.neighbours.borrow_mut().be_thorough(until_ns);
    }
    Ok(is_left_behind)
}

/// The places that this client monitors, and the further places that it READs this time.
async fn look_at_neighbours<E: Endpoint>(client: &Client<E>) -> Result<Vec<Place>, VerbError> {
    let (me, now_ns) = (client.me().slot, client.endpoint.now_ns());
    let count = registry::members_ever(&client.endpoint, &client.pool).await? as u32;
    client.note_members(count);
    let ranges = client.neighbours.borrow_mut().next_look(me, count, now_ns);
    let places = registry::some_places(&client.endpoint, &client.pool, &ranges).await?;
    client.neighbours.borrow_mut().note(me, count, &places);
    Ok(places)
}

/// Reclaims what clients own that are not alive, and frees their places.
async fn reclaim<S: Estate>(estate: &S) -> Result<Repaired, S::Error> {
    let client = estate.client();
    client.count_upkeep(|upkeep| upkeep.repairs += 1);
    let places = registry::places(&client.endpoint, &client.pool).await?;
    let descriptors = client.all_descriptors().await?;
    let roll = Roll::of(&registry::places(&client.endpoint, &client.pool).await?);
    retirement::reclaim(&client.endpoint, &client.pool.layout, &descriptors, &roll).await?;
    let (chunks, settled) = estate.settle(&Seen { places, descriptors, roll }).await?;
    let client = estate.client();
    for place in &settled {
        registry::free(&client.endpoint, &client.pool, place).await?;
    }
    client.count_upkeep(|upkeep| upkeep.chunks_repaired += chunks);
    let recounted = recount(estate).await?;
    Ok(Repaired { clients: 0, chunks, recounted })
}

/// Recounts everything, if all other clients are gone or at rest and a client has died since the
/// last recount. Returns whether it did. No other operation of this client runs meanwhile.
pub async fn recount<S: Estate>(estate: &S) -> Result<bool, S::Error> {
    let client = estate.client();
    let Some(_closed) = client.in_flight().close() else { return Ok(false) };
    estate.recount_own().await?;
    let (deaths, counted) = client.deaths().await?;
    let before = registry::places(&client.endpoint, &client.pool).await?;
    if deaths == counted || !registry::is_quiet(&before, client.me()) {
        return Ok(false);
    }
    client.endpoint.flush().await?;
    let objects = estate.count_objects().await?;
    let client = estate.client();
    let layout = &client.pool.layout;
    let is_free = |each: &&Descriptor| each.chunk.is_some_and(|chunk| chunk.state == ChunkState::Free);
    let free = client.all_descriptors().await?.iter().filter(is_free).count() as u64;
    let counted_objects = registry::objects_exact(&client.endpoint, &client.pool).await?;
    let counted_free = read_word(&client.endpoint, layout.free_chunks()).await?;
    let resident = read_word(&client.endpoint, layout.resident_objects()).await?;
    let after = registry::places(&client.endpoint, &client.pool).await?;
    if !registry::was_quiet(&before, &after, client.me()) {
        return Ok(false);
    }
    // Added, not written: another client may have joined just now.
    let mut batch = Batch::new();
    batch.fetch_and_add(layout.free_chunks(), free.wrapping_sub(counted_free));
    if client.pool.settings.objects_max > 0 {
        let promised = objects + estate.objects_reserved();
        batch.fetch_and_add(layout.resident_objects(), promised.wrapping_sub(resident));
    }
    batch.compare_and_swap(layout.deaths_counted(), counted, deaths);
    client.endpoint.post(&mut batch).await?;
    client.note_counts_exact();
    client.count_objects(objects.wrapping_sub(counted_objects) as i64).await?;
    client.endpoint.flush().await?;
    estate.counted_anew().await?;
    Ok(true)
}

//! Two protocols on one server: the listener that accepted a connection decides which one it
//! speaks. Workers drive connections of both.
//!
//! The tally counts the first protocol's commands, and the second's behind them.

use super::handle::Handle;
use super::output::Output;
use super::protocol::{Client, Ended, Listener, Peer, Protocol};
use atoll_cache::Engine;
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// One protocol at each of a server's two listeners.
#[derive(Clone)]
pub struct Both<P, Q> {
    first: P,
    second: Q,
    /// How many commands the first one has.
    commands: usize,
}

impl<P: Protocol, Q: Protocol> Both<P, Q> {
    /// Serves `first` at the first listener, and `second` at the second.
    pub fn new(first: P, second: Q) -> Self {
        Self { first, second, commands: P::commands().len() }
    }

    /// The second protocol counts behind the first.
    #[inline]
    fn behind<'a, G: Engine>(&self, client: Client<'a, G>) -> Client<'a, G> {
        Client { first_command: client.first_command + self.commands, ..client }
    }
}

/// What a connection of either protocol has.
pub enum Either<A, B> {
    /// Of the first one.
    First(A),
    /// Of the second one.
    Second(B),
}

impl<P: Protocol, Q: Protocol> Protocol for Both<P, Q> {
    type State = Either<P::State, Q::State>;
    type Scratch = (P::Scratch, Q::Scratch);

    fn commands() -> Vec<&'static str> {
        [P::commands(), Q::commands()].concat()
    }

    fn too_many(listener: Listener) -> &'static [u8] {
        match listener {
            Listener::First => P::too_many(listener),
            Listener::Second => Q::too_many(listener),
        }
    }

    fn connect(&self, handle: &Arc<Handle>) -> Self::State {
        match handle.listener {
            Listener::First => Either::First(self.first.connect(handle)),
            Listener::Second => Either::Second(self.second.connect(handle)),
        }
    }

    fn refuses(&self, listener: Listener, peer: Peer) -> Option<Cow<'static, [u8]>> {
        match listener {
            Listener::First => self.first.refuses(listener, peer),
            Listener::Second => self.second.refuses(listener, peer),
        }
    }

    async fn wait(&self, state: &mut Self::State) {
        match state {
            Either::First(state) => self.first.wait(state).await,
            Either::Second(state) => self.second.wait(state).await,
        }
    }

    async fn tend<G: Engine>(&self, client: Client<'_, G>) {
        self.first.tend(client).await;
        self.second.tend(self.behind(client)).await;
    }

    async fn until_watched(&self, worker: usize) {
        // Only the first one watches.
        self.first.until_watched(worker).await;
    }

    async fn watch<G: Engine>(&self, client: Client<'_, G>) -> Duration {
        self.first.watch(client).await
    }

    #[inline]
    fn bytes_expected(state: &Self::State) -> usize {
        match state {
            Either::First(state) => P::bytes_expected(state),
            Either::Second(state) => Q::bytes_expected(state),
        }
    }

    #[inline]
    async fn run<G: Engine>(
        &self,
        state: &mut Self::State,
        (first, second): &mut Self::Scratch,
        client: Client<'_, G>,
        input: &[u8],
        start: &mut usize,
        output: &mut Output,
    ) -> Ended {
        match state {
            Either::First(state) => pin!(self.first.run(state, first, client, input, start, output)).await,
            Either::Second(state) => {
                pin!(self.second.run(state, second, self.behind(client), input, start, output)).await
            }
        }
    }
}

//! Whether a living client has the block of a dead client's cell.
//!
//! The cell of a living client may be out of date. So it is a **suspicion** only. A living client
//! publishes its cells in every round, before it announces the round. A repairer notes how many
//! rounds the client had announced. After [`ROUNDS_PROVING`] more rounds the cell is true.

use super::cell::{CELLS, Cell, CellState};
use super::{Core, Hole};
use crate::CacheError;
use atoll_fabric::{Address, Endpoint};
use atoll_pool::Incarnation;
use atoll_pool::in_flight::ROUNDS_PROVING;
use atoll_pool::registry::{self, Place};

/// The result about the block of a dead client's cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It was put back.
    PutBack,
    /// A client, a slot or a shelf has it.
    Had,
    /// It cannot be known yet.
    Unknown,
}

/// A dead client's cell whose block a living client's cell names too, until the living client has
/// republished its cells.
#[derive(Debug)]
pub(super) struct Suspicion {
    cell: Cell,
    dead: Incarnation,
    living: Incarnation,
    /// The round that the living client had announced then.
    rounds: u32,
}

impl<E: Endpoint> Core<E> {
    /// Which places have a client that lives.
    pub(super) async fn living_places(&self) -> Result<Vec<bool>, CacheError> {
        let places = registry::places(&self.client.endpoint, &self.client.pool).await?;
        Ok(self.living_of(&places))
    }

    fn living_of(&self, places: &[Place]) -> Vec<bool> {
        let lives = |slot| places.iter().any(|place| place.incarnation.slot == slot && place.state.is_alive());
        (0..self.client.pool.settings.clients_max).map(lives).collect()
    }

    /// Whether the cells of living clients name the block of a dead client's cell: one of them has
    /// it, or may have it. `None` if they do not name it.
    pub(super) async fn living_holder(
        &self,
        cell: Cell,
        cell_at: Address,
        client: u32,
    ) -> Result<Option<Settled>, CacheError> {
        let before = registry::places(&self.client.endpoint, &self.client.pool).await?;
        let cells = self.all_cells().await?;
        // READ after the cells: a client that WROTE a cell has joined before that.
        let places = registry::places(&self.client.endpoint, &self.client.pool).await?;
        let is_alive = self.living_of(&places);
        let mine = self.client.me().slot as usize;
        if client as usize != mine && is_alive[client as usize] {
            // A client has joined at the place, and settles what was left in its cells.
            return Ok(Some(Settled::Unknown));
        }
        let is_settled_elsewhere = |(index, word): (usize, &u64)| {
            let is_it = self.shared.layout.cell(0, index as u64) == cell_at;
            let settler = Cell::from_word(*word).filter(|other| other.block == cell.block && !is_it)?.settler?;
            (settler as usize != mine && is_alive.get(settler as usize).copied().unwrap_or(false)).then_some(())
        };
        if cells.iter().enumerate().any(|each| is_settled_elsewhere(each).is_some()) {
            return Ok(Some(Settled::Unknown));
        }
        let of_block = |(index, word): (usize, &u64)| {
            let (client, cell_index) = (index / CELLS, index % CELLS);
            let is_left = client == mine && self.stock.borrow().is_foreign(cell_index);
            let is_living = is_alive.get(client).copied().unwrap_or(false) && !is_left;
            let other = Cell::from_word(*word).filter(|other| is_living && other.block == cell.block)?;
            Some((client as u32, other))
        };
        let Some((living, other)) = cells.iter().enumerate().find_map(of_block) else { return Ok(None) };
        let place_of = |slot| places.iter().find(|place| place.incarnation.slot == slot);
        let (Some(dead), Some(living)) = (place_of(client), place_of(living)) else {
            return Ok(Some(Settled::Unknown));
        };
        let suspicion = Suspicion { cell, dead: dead.incarnation, living: living.incarnation, rounds: living.rounds() };
        let same =
            |noted: &&Suspicion| (noted.cell, noted.dead, noted.living) == (cell, suspicion.dead, suspicion.living);
        let rounds = self.suspicions.borrow().iter().find(same).map(|noted| noted.rounds);
        // The client publishes its cells in every round, before it announces the round. After so
        // many rounds it has published them at least once since the suspicion began.
        let has_told = |place: &Place, since: u32| {
            place.incarnation == suspicion.living && place.rounds().wrapping_sub(since) >= ROUNDS_PROVING
        };
        let is_timely = rounds.is_some_and(|since| before.iter().any(|place| has_told(place, since)))
            || self.is_open(Hole::UntimelyCell);
        if other.state == CellState::Won && is_timely {
            return Ok(Some(Settled::Had));
        }
        if rounds.is_none() {
            self.suspicions.borrow_mut().retain(|noted| (noted.cell, noted.dead.slot) != (cell, client));
            self.suspicions.borrow_mut().push(suspicion);
        }
        Ok(Some(Settled::Unknown))
    }
}

//! How a client makes room: from its stock, a free chunk, a dead or expired object, or an object
//! that it evicts. **Eviction is decided here, and only here:** this module says when, and `victim`
//! asks the replacement which object.
//!
//! Nothing is evicted for memory while much of it is dead: then live objects are gathered (see
//! `gather`).
//!
//! A client that needs a block makes room itself, and waits for no other client. A sample is one
//! READ, or a few in one batch: a random bucket, slots and access information. Dead blocks and
//! expired objects in it are used first. Otherwise the replacement chooses among the objects whose
//! blocks fit: blocks of the class, or blocks that are larger by at most a quarter.
//!
//! Where sizes differ, chunks must pass from one class to another. A victim's chunk is emptied and
//! cut again in two cases:
//!
//! - No sample has a block that fits.
//! - The best victim of a whole sample is of another class. Then the chunk is emptied now and then:
//!   once for the blocks of so many chunks as `DRAIN_EVERY`.
//!
//! All objects in the chunk are evicted with it. So the more blocks a victim's chunk has, the more
//! rarely it is emptied: see `share`. Each class loses chunks in proportion to its chunks, not its
//! objects, and gains chunks as it is written. So its share of the memory becomes its share of the
//! bytes written, as in one queue for all.
//!
//! | needed | module | what is used: the first that there is |
//! |---|---|---|
//! | a block of a class | `block` | a shelved block; a fresh chunk, cut; a dead block, an expired object, a shelved block of a sample; where much is dead, live objects are gathered; now and then the whole chunk of the choice among all; the choice among those that fit |
//! | chunks | `chunk` | a free chunk; live objects of other chunks are gathered; an expired large object; the chunk of the choice, or a large object |
//! | a place below the limit of objects | `limit` | an expired object; the choice among all |
//! | a slot of a full bucket | `bucket` | an expired object; the choice among the bucket's; any of them |
//!
//! With queues the choice is a queue's: see `queued`.
//!
//! | module | concept |
//! |---|---|
//! | `search` | how far a search has come, and what it does next |
//! | `share` | how often a victim's chunk is emptied with it |
//! | `queued` | making room where queues choose the victim |
//! | `victim` | what a look shows, which object is evicted, and how |

mod block;
mod bucket;
mod chunk;
mod limit;
mod queued;
mod search;
mod share;
mod victim;

pub(super) use search::{TRIES_MAX, pause_ns};
pub(super) use share::MeanShare;

use super::class::Class;
use super::drain::DrainLook;
use super::gather::GATHERS_MAX;
use super::operation::Operation;
use super::replacement::Replacement;
use super::{Core, Objects};
use crate::CacheError;
use crate::extent::turns;
use atoll_fabric::{Endpoint, Purpose};
use atoll_pool::loan::Loan;
use search::IDLE_TRIES;

impl<E: Endpoint> Core<E> {
    /// Draws a block for a record of the class, and so many fresh chunks, from the stock. Makes
    /// sure that there is a cell. Returns whether the operation has all of it now.
    #[inline]
    pub(super) fn draw(&self, op: &mut Operation, class: Class, chunks: usize) -> bool {
        let notes = &mut op.notes;
        if let Some(held) = notes.block.take_if(|held| !self.block_fits(held.class, class)) {
            self.keep(held, held.tag);
        }
        if notes.block.is_none() {
            notes.block = self.pop_block(class);
        }
        let missing = chunks.saturating_sub(notes.chunks.len());
        if missing > 0 {
            self.fresh.chunks.draw(&mut notes.chunks, missing);
        }
        notes.block.is_some() && notes.chunks.len() >= chunks && self.stock.borrow().has_cell()
    }

    /// Puts back what an operation has drawn.
    #[inline]
    pub(super) fn put_back_drawn(&self, op: &mut Operation) {
        if let Some(held) = op.notes.block.take() {
            self.keep(held, held.tag);
        }
        if !op.notes.chunks.is_empty() {
            self.fresh.chunks.put_back(&mut op.notes.chunks);
        }
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Makes sure that the stock has a block of this class, a cell, and so many fresh chunks.
    pub(super) async fn restock(&self, op: &mut Operation, class: Class, chunks: usize) -> Result<(), CacheError> {
        let _turn = self.turn_to_make_room(op).await?;
        // The operation that made room before may have left enough.
        if self.core.draw(op, class, chunks) {
            return Ok(());
        }
        self.core.put_back_drawn(op);
        self.core.drains.more.set(0);
        op.notes.gathers_left = GATHERS_MAX.saturating_mul(1 + chunks as u32);
        let before = self.core.client.endpoint.purpose(Purpose::Eviction);
        let restocked = self.fill_and_draw(op, class, chunks).await;
        self.core.client.endpoint.purpose(before);
        restocked
    }

    async fn fill_and_draw(&self, op: &mut Operation, class: Class, chunks: usize) -> Result<(), CacheError> {
        for tried in 1..=TRIES_MAX {
            self.fill_stock(op, class, chunks).await?;
            if self.core.draw(op, class, chunks) {
                return Ok(());
            }
            // The block has the last cell.
            self.core.put_back_drawn(op);
            if tried > 1 {
                // Operations under way have all other cells, and may wait for a client that died.
                Box::pin(self.wait_for_others(op, tried - 1)).await?;
            }
        }
        Err(CacheError::OutOfMemory)
    }

    /// Waits until no other operation of this client makes room. The operation relies on nothing
    /// that it has seen, and holds nothing.
    pub(super) async fn turn_to_make_room(&self, op: &mut Operation) -> Result<Loan<'_, ()>, CacheError> {
        self.core.put_back_drawn(op);
        if let Some(turn) = self.making_room.lend() {
            self.core.client.in_flight().renew(&mut op.entry);
            return Ok(turn);
        }
        self.core.limit.release(&self.core.client, op);
        Ok(self.core.client.lent_aside(&self.making_room, &mut op.entry).await?)
    }

    async fn fill_stock(&self, op: &mut Operation, class: Class, chunks: usize) -> Result<(), CacheError> {
        self.free_a_cell(op).await?;
        for round in 1.. {
            match self.obtain_chunks(op, chunks).await {
                // Writers of large values may block each other with the chunks that they have so
                // far. A writer that gives them up lets another writer finish first.
                Err(CacheError::OutOfMemory) if round < 3 => {
                    self.core.free_fresh_chunks().await?;
                    let pause_ns = self.core.client.endpoint.random() % (round * 10_000_000);
                    turns::wait(&self.core.client, pause_ns).await;
                }
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        self.obtain_block(op, class, chunks).await
    }

    /// Makes sure that this client has a cell for another block. If the index is so full that no
    /// slot can name a released block, chunks are emptied together with such blocks. Other clients
    /// wait for the blocks that this client holds, and it waits for theirs.
    pub(super) async fn free_a_cell(&self, op: &mut Operation) -> Result<(), CacheError> {
        let (mut tried, drains_more) = (0, self.core.drains.more.get());
        while !self.core.stock.borrow().has_cell() {
            if self.core.stock.borrow().may_have_cell_soon() && tried < TRIES_MAX {
                // Operations under way have all cells.
                tried += 1;
                self.core.client.endpoint.pause(pause_ns(tried)).await;
                continue;
            }
            self.core.release_beyond(0).await?;
            self.core.look_for_drains().await?;
            self.core.recheck_waiting(DrainLook::ForRoom).await?;
            tried += 1;
            if tried >= TRIES_MAX {
                return Err(CacheError::OutOfMemory);
            }
            if tried > IDLE_TRIES && !self.core.stock.borrow().has_cell() {
                Box::pin(self.wait_for_others(op, tried - IDLE_TRIES)).await?;
            }
        }
        self.core.drains.more.set(drains_more);
        Ok(())
    }

    /// Gives other clients what this client can spare, and time.
    async fn wait_for_others(&self, op: &mut Operation, tried: u32) -> Result<(), CacheError> {
        self.core.client.in_flight().renew(&mut op.entry);
        self.core.drains.more.set(tried as usize);
        self.core.fresh.note_search(true);
        self.core.end_slabs().await?;
        self.core.release_beyond(0).await?;
        turns::wait(&self.core.client, pause_ns(tried)).await;
        // A client that died may hold all of it.
        Box::pin(atoll_pool::repair::round(&self.core)).await
    }
}

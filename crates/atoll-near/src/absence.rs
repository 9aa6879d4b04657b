//! Memory nodes that end, and come back empty.
//!
//! With the region of a memory node, its objects end, and its modes and owners with them. Compute
//! nodes still have copies, and still remember modes. So each region of a memory node has a number,
//! its **incarnation**: it stands in the table of modes there, and in the directory's home.
//!
//! ```text
//! in the home     2, 4, 6...   clients may use the region that has this number
//!                 3, 5, 7...   the region with the number before is gone
//! in the table    0            no client may use this region yet
//! ```
//!
//! | step | by | from then on |
//! |---|---|---|
//! | the number in the home becomes odd | any client that proves that the region is gone | no client begins to use the region |
//! | `losses` of every compute node | the same, and any that finds the number odd | no copy made before is valid |
//! | the application makes the region anew, all zero, and writes its objects there | | endpoints that reached the old region never reach the new one |
//! | every stripe there: every node is an owner | a client that reaches it | writers tell all nodes |
//! | the next even number in the table, then in the home | the same | clients may use it |
//! | a compute node forgets what it believes of the stripes' modes | its first client that uses the new region | it asks for them |
//!
//! Each step is a fetch-and-add or a compare-and-swap from the word that was seen. So several
//! clients may take the steps at once, and any of them may die.
//!
//! | the home has | the client READs in the table | it says that the region is |
//! |---|---|---|
//! | an odd number | | absent |
//! | an even number | the same number | in use |
//! | an even number | 0 | gone: a node has one region |
//! | an even number | a later number | too early to say: it looks again |
//! | an even number | an earlier number | not known: it reaches an older region |
//! | an even number, seen in the table before | nothing: the fabric says that the region is gone | gone |
//! | an even number | nothing otherwise | not known |
//!
//! A client looks before its first use of a memory node. An endpoint reaches one region of a node
//! as long as it lives, so one look is enough.
//!
//! **Why no old value is read.** A copy from before has the old `losses`. While no region is in
//! use, none is made. The stripes of a new region are in their first mode, and each compute node
//! begins there as a newcomer does: it remembers no mode until it has asked. What an operation on
//! the old region remembers late has an older generation, and counts no more.
//!
//! If the memory node with the home ends, there is no directory any more. Its compute nodes must
//! end before another one is made.

use crate::directory::{TABLES_MAX, Table};
use crate::error::NearError;
use crate::hole::Hole;
use crate::near::Near;
use crate::newcomer::WALK_BYTES;
use crate::owners::OwnersWord;
use crate::verbs::{read_word, swap};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Endpoint, RegionState, VerbError};
use std::cell::Cell;

/// The incarnation of a memory node that has never ended.
pub(crate) const FIRST_INCARNATION: u64 = 2;

/// What a client knows of memory nodes.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The incarnation of each one's region that it has seen in use; 0 for none.
    numbers: [Cell<u64>; TABLES_MAX],
    /// Those that it uses, a bit each.
    used: Cell<u64>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { numbers: [const { Cell::new(0) }; TABLES_MAX], used: Cell::new(0) }
    }
}

/// What a client knows of a memory node's region: a row of the last table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is in use, with this number.
    Used(u64),
    /// It is gone, and its number in the home is this odd one.
    Absent(u64),
    /// It is gone, and its number in the home is still this even one.
    Gone(u64),
    /// Nothing.
    Unknown,
}

/// What a client found in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Number(u64),
    /// The fabric says that the region is gone which this endpoint has reached last.
    Gone,
    Nothing,
}

impl Standing {
    /// What this number in the home and this answer of the table say to a client that has seen the
    /// number `seen` in the table before. `None` if the home has another number by now.
    fn of(number: u64, answer: Answer, seen: u64) -> Option<Self> {
        let standing = match answer {
            _ if !number.is_multiple_of(2) => Self::Absent(number),
            Answer::Number(found) if found == number => Self::Used(number),
            Answer::Number(0) => Self::Gone(number),
            Answer::Number(found) if found > number => return None,
            Answer::Gone if seen == number => Self::Gone(number),
            Answer::Number(_) | Answer::Gone | Answer::Nothing => Self::Unknown,
        };
        Some(standing)
    }
}

impl<E: Endpoint> Near<E> {
    /// Whether this client may use the objects of a memory node without a look.
    #[inline]
    pub(crate) fn uses(&self, node: u8) -> bool {
        self.seen.used.get() >> node & 1 == 1 || self.open.lacks(Hole::UnmarkedRegions)
    }

    /// The incarnation of a memory node that this client uses.
    pub(crate) fn incarnation_in_use(&self, node: u8) -> u64 {
        self.seen.numbers[usize::from(node)].get()
    }

    /// Makes sure that this client may use the objects of a memory node.
    pub(crate) async fn look_before_use(&self, node: u8) -> Result<(), NearError> {
        let Some(table) = self.directory.table(node) else { return Ok(()) };
        let Standing::Used(number) = self.look_at_table(table).await? else {
            return Err(NearError::NodeAway { node });
        };
        self.forget_modes(table, number).await?;
        self.begin_use(node);
        Ok(())
    }

    /// This client looks no more before it uses a memory node.
    pub(crate) fn begin_use(&self, node: u8) {
        self.seen.used.set(self.seen.used.get() | 1 << node);
    }

    /// Makes sure that this compute node remembers no mode of an earlier region.
    async fn forget_modes(&self, table: Table, number: u64) -> Result<(), NearError> {
        let at = self.layout.incarnation_at(table.node());
        let former = read_word(&self.endpoint, at).await?;
        let hole = if former == 0 { Hole::ModesOfNewcomers } else { Hole::ModesOfLostNode };
        if former == number || self.open.lacks(hole) {
            return Ok(());
        }
        // Another client may do the same. What is forgotten twice is asked for twice.
        for part in self.directory.parts(table, WALK_BYTES) {
            self.believe_nothing(part.stripes()).await?;
        }
        let _ = swap(&self.endpoint, at, former, number).await?;
        Ok(())
    }

    /// What this client knows of the region that has a table.
    pub(crate) async fn look_at_table(&self, table: Table) -> Result<Standing, NearError> {
        let seen = &self.seen.numbers[usize::from(table.node())];
        loop {
            let number = read_word(&self.endpoint, self.directory.incarnation_at(table.node())).await?;
            let Some(standing) = Standing::of(number, self.ask_table(table).await?, seen.get()) else { continue };
            if standing == Standing::Used(number) {
                seen.set(number);
            }
            return Ok(standing);
        }
    }

    async fn ask_table(&self, table: Table) -> Result<Answer, NearError> {
        let found = match self.endpoint.reach(table.node()).await {
            Ok(()) => read_word(&self.endpoint, table.incarnation_at()).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(found) => Ok(Answer::Number(found)),
            // A connection may have broken, and nothing else.
            Err(VerbError::PeerDead | VerbError::NodeAbsent(_)) => {
                Ok(match self.endpoint.region_state(table.node()).await {
                    RegionState::Gone | RegionState::Away => Answer::Gone,
                    RegionState::Silent | RegionState::Unknown => Answer::Nothing,
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Marks a memory node whose region is gone. No compute node has a copy of its objects then,
    /// and no client begins to use it. An application calls this when a verb to the node has
    /// failed. Returns whether the node is marked: it is not if the region is there, or cannot be
    /// proven to be gone.
    ///
    /// # Errors
    /// A verb's error to another node.
    pub async fn lose_memory_node(&self, node: u8) -> Result<bool, NearError> {
        let Some(table) = self.directory.table(node) else { return Ok(false) };
        Ok(self.lose(table).await?.is_some())
    }

    /// The same; the odd number in the home.
    async fn lose(&self, table: Table) -> Result<Option<u64>, NearError> {
        let number = loop {
            match self.look_at_table(table).await? {
                Standing::Absent(number) => break number,
                Standing::Gone(number) => {
                    let at = self.directory.incarnation_at(table.node());
                    // Another client may have been faster.
                    let _ = swap(&self.endpoint, at, number, number + 1).await?;
                }
                Standing::Used(_) | Standing::Unknown => return Ok(None),
            }
        };
        if !self.open.lacks(Hole::CopiesOfLostNode) {
            self.end_copies().await?;
        }
        Ok(Some(number))
    }

    /// Brings a memory node into use again, whose region is gone and was made anew. The new region
    /// is all zero but for objects that the application has written there already. This client must
    /// reach the new region, which no endpoint does that has reached the old one. Over `tcp:` that
    /// is an endpoint of a fabric that was opened since.
    ///
    /// A compute node keeps its near region: a client with such an endpoint
    /// [attaches](Near::attach) to it. Clients that reached the old region hit copies of the new
    /// objects, too; their other accesses fail.
    ///
    /// # Errors
    /// [`NearError::NodeAway`] if this client does not reach an empty region, or the old one may
    /// still be there. [`NearError::NoManager`] beside a central manager: it ends with the region;
    /// create the directory anew. Otherwise a verb's error.
    pub async fn renew_memory_node(&self, node: u8) -> Result<(), NearError> {
        if self.directory.options().protocol.has_manager() {
            return Err(NearError::NoManager);
        }
        let Some(table) = self.directory.table(node) else { return Ok(()) };
        // It is in use, or nothing is known of the old region.
        let Some(number) = self.lose(table).await? else { return self.look_before_use(node).await };
        let found = read_word(&self.endpoint, table.incarnation_at()).await?;
        // Another client may have been here.
        if found != number + 1 {
            if found != 0 {
                return Err(NearError::NodeAway { node });
            }
            self.begin_stripes(table).await?;
            let _ = swap(&self.endpoint, table.incarnation_at(), 0, number + 1).await?;
        }
        let in_home = swap(&self.endpoint, self.directory.incarnation_at(node), number, number + 1).await?;
        if in_home.is_err_and(|found| found > number + 1) {
            // That was the number of an earlier region, which has ended meanwhile.
            let _ = swap(&self.endpoint, table.incarnation_at(), number + 1, 0).await?;
        }
        self.look_before_use(node).await
    }

    /// Makes every node an owner of every stripe of a new region: a node may remember that it is.
    async fn begin_stripes(&self, table: Table) -> Result<(), NearError> {
        let owners = if self.open.lacks(Hole::OwnersOfLostNode) { 0 } else { OwnersWord::everyone().bits() };
        for part in self.directory.parts(table, WALK_BYTES) {
            let mut stripes = part.stripes().peekable();
            while stripes.peek().is_some() {
                let mut batch = Batch::new();
                for stripe in stripes.by_ref().take(BATCH_VERBS_MAX) {
                    // A client that was here before may be using the region already.
                    batch.compare_and_swap(stripe.owners_at(), 0, owners);
                }
                self.endpoint.post(&mut batch).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Row, follow};

    #[test]
    fn one_row_of_the_last_table_matches_every_look() {
        type Case = (u64, Answer, u64);
        /// The variants, whatever numbers they carry.
        #[derive(Clone, Copy, Debug, PartialEq)]
        enum Says {
            Used,
            Absent,
            Gone,
            Early,
            Unknown,
        }
        let rows: [Row<Case, Says>; 7] = [
            ("an odd number", |(number, ..)| number % 2 == 1, Says::Absent),
            ("0", |(number, answer, _)| number % 2 == 0 && *answer == Answer::Number(0), Says::Gone),
            (
                "the same number",
                |(number, answer, _)| number % 2 == 0 && *answer == Answer::Number(*number),
                Says::Used,
            ),
            (
                "a later number",
                |(number, answer, _)| number % 2 == 0 && matches!(answer, Answer::Number(found) if found > number),
                Says::Early,
            ),
            (
                "an earlier number",
                |(number, answer, _)| {
                    number % 2 == 0 && matches!(answer, Answer::Number(found) if found < number && *found != 0)
                },
                Says::Unknown,
            ),
            (
                "gone, and seen before",
                |(number, answer, seen)| number % 2 == 0 && *answer == Answer::Gone && seen == number,
                Says::Gone,
            ),
            (
                "nothing otherwise",
                |(number, answer, seen)| {
                    let is_unseen = *answer == Answer::Gone && seen != number;
                    number % 2 == 0 && (*answer == Answer::Nothing || is_unseen)
                },
                Says::Unknown,
            ),
        ];
        let answers = [0, 2, 4].map(Answer::Number).into_iter().chain([Answer::Gone, Answer::Nothing]);
        let cases = answers.flat_map(|answer| {
            [2, 3, 4, 5].into_iter().flat_map(move |number| [0, 2, 4].map(|seen| (number, answer, seen)))
        });
        follow(&rows, cases, |(number, answer, seen)| match Standing::of(*number, *answer, *seen) {
            Some(Standing::Used(_)) => Says::Used,
            Some(Standing::Absent(_)) => Says::Absent,
            Some(Standing::Gone(_)) => Says::Gone,
            None => Says::Early,
            Some(Standing::Unknown) => Says::Unknown,
        });
    }
}

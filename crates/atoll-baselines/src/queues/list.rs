//! A list, as the client sees it that holds its lock.

use super::area::{self, Area, Broken, NODE_WORDS, link, list_word, node_word};
use arrayvec::ArrayVec;
use atoll_fabric::{Batch, Buffer};

/// Most nodes that are relinked under one lock: their WRITEs fit into one batch.
pub(super) const TOGETHER_MAX: usize = 8;

/// A node, as it was READ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Node([u64; NODE_WORDS]);

impl Node {
    pub(super) fn of(words: &[u64]) -> Self {
        words.first_chunk().copied().map_or_else(Self::default, Self)
    }

    /// The word with a number of [`node_word`].
    pub(super) fn word(self, number: u64) -> u64 {
        self.0[number as usize]
    }

    fn set(&mut self, number: u64, value: u64) {
        self.0[number as usize] = value;
    }
}

/// A list whose lock this client holds, and its changes that are not written yet.
pub(super) struct Locked {
    pub(super) list: u32,
    head: u64,
    tail: u64,
    turn: u64,
    hand: u64,
    sweeps: u64,
    /// Nodes that were READ, with the changes.
    known: Vec<(u64, Node)>,
    /// Words to be written, by their numbers in the area.
    edits: Vec<(u64, u64)>,
}

impl Locked {
    pub(super) fn new(list: u32, words: &[u64]) -> Self {
        let word = |number: u64| words.get(number as usize).copied().unwrap_or_default();
        let (head, tail) = (word(list_word::HEAD), word(list_word::TAIL));
        let (turn, hand, sweeps) = (word(list_word::TURN), word(list_word::HAND), word(list_word::SWEEPS));
        Self { list, head, tail, turn, hand, sweeps, known: Vec::new(), edits: Vec::new() }
    }

    /// Remembers a node.
    pub(super) fn know(&mut self, slot: u64, node: Node) {
        self.known.retain(|(other, _)| *other != slot);
        self.known.push((slot, node));
    }

    /// Forgets all nodes that were READ.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// A node that was READ.
    pub(super) fn node(&self, slot: u64) -> Node {
        self.known.iter().find(|(other, _)| *other == slot).map_or_else(Node::default, |(_, node)| *node)
    }

    /// A node that was READ now, with its unwritten changes.
    pub(super) fn edited(&self, area: &Area, slot: u64, mut node: Node) -> Node {
        for word in [node_word::PREV, node_word::NEXT, node_word::MARK] {
            let number = area.node_word(slot, word);
            if let Some((_, value)) = self.edits.iter().find(|(other, _)| *other == number) {
                node.set(word, *value);
            }
        }
        node
    }

    /// Whether a node that was READ is in the list.
    pub(super) fn has(&self, slot: u64) -> bool {
        area::is_linked(self.node(slot).word(node_word::MARK), self.turn)
    }

    /// The slot at the head.
    pub(super) fn head(&self, area: &Area) -> Result<Option<u64>, Broken> {
        area.linked(self.list, self.head)
    }

    /// The slot at the tail.
    pub(super) fn tail(&self, area: &Area) -> Result<Option<u64>, Broken> {
        area.linked(self.list, self.tail)
    }

    /// The slot where the hand is.
    pub(super) fn hand(&self, area: &Area) -> Result<Option<u64>, Broken> {
        area.linked(self.list, self.hand)
    }

    /// Moves the hand.
    pub(super) fn set_hand(&mut self, area: &Area, slot: Option<u64>) {
        if self.hand != link(slot) {
            self.hand = link(slot);
            self.edit(area.list_word(self.list, list_word::HAND), self.hand);
        }
    }

    /// How often the hand has begun at the tail.
    pub(super) fn sweeps(&self) -> u64 {
        self.sweeps
    }

    /// Notes that the hand begins at the tail.
    pub(super) fn begin_sweep(&mut self, area: &Area) {
        self.sweeps = self.sweeps.wrapping_add(1);
        self.edit(area.list_word(self.list, list_word::SWEEPS), self.sweeps);
    }

    fn edit(&mut self, number: u64, value: u64) {
        self.edits.retain(|(other, _)| *other != number);
        self.edits.push((number, value));
    }

    fn set(&mut self, area: &Area, slot: u64, word: u64, value: u64) {
        self.edit(area.node_word(slot, word), value);
        if let Some((_, node)) = self.known.iter_mut().find(|(other, _)| *other == slot) {
            node.set(word, value);
        }
    }

    fn set_ends(&mut self, area: &Area, head: u64, tail: u64) {
        if self.head != head {
            self.head = head;
            self.edit(area.list_word(self.list, list_word::HEAD), head);
        }
        if self.tail != tail {
            self.tail = tail;
            self.edit(area.list_word(self.list, list_word::TAIL), tail);
        }
    }

    /// Resets the list to empty: none of its nodes counts any more.
    pub(super) fn begin_anew(&mut self, area: &Area) {
        self.edits.clear();
        (self.head, self.tail, self.hand, self.turn) = (0, 0, 0, self.turn.wrapping_add(1));
        for (word, value) in
            [(list_word::HEAD, 0), (list_word::TAIL, 0), (list_word::TURN, self.turn), (list_word::HAND, 0)]
        {
            self.edit(area.list_word(self.list, word), value);
        }
    }

    /// Unlinks a node that was READ and is in the list.
    pub(super) fn unlink(&mut self, area: &Area, slot: u64) -> Result<(), Broken> {
        let node = self.node(slot);
        let (prev, next) =
            (area.linked(self.list, node.word(node_word::PREV))?, area.linked(self.list, node.word(node_word::NEXT))?);
        let is_end = |end: u64, neighbour: Option<u64>| (end == slot + 1) == neighbour.is_none();
        if !is_end(self.head, prev) || !is_end(self.tail, next) || prev == Some(slot) || next == Some(slot) {
            return Err(Broken);
        }
        if self.hand == slot + 1 {
            self.set_hand(area, prev);
        }
        let (head, tail) = (self.head, self.tail);
        self.set_ends(
            area,
            if prev.is_none() { node.word(node_word::NEXT) } else { head },
            if next.is_none() { node.word(node_word::PREV) } else { tail },
        );
        if let Some(prev) = prev {
            self.set(area, prev, node_word::NEXT, node.word(node_word::NEXT));
        }
        if let Some(next) = next {
            self.set(area, next, node_word::PREV, node.word(node_word::PREV));
        }
        self.set(area, slot, node_word::MARK, 0);
        Ok(())
    }

    /// Puts a node that is not in the list at its head, or at its tail.
    pub(super) fn link(&mut self, area: &Area, slot: u64, at_tail: bool, now_us: u64) {
        let is_sound = |end: Result<Option<u64>, Broken>| end.is_ok_and(|end| end != Some(slot));
        if !is_sound(self.head(area)) || !is_sound(self.tail(area)) || (self.head == 0) != (self.tail == 0) {
            self.begin_anew(area);
        }
        let (head, tail, here) = (self.head, self.tail, slot + 1);
        let (prev, next) = if at_tail { (tail, 0) } else { (0, head) };
        self.set(area, slot, node_word::PREV, prev);
        self.set(area, slot, node_word::NEXT, next);
        self.set(area, slot, node_word::MARK, area::mark(self.turn, now_us));
        match (at_tail, head) {
            (_, 0) => self.set_ends(area, here, here),
            (true, _) => {
                self.set(area, tail - 1, node_word::NEXT, here);
                self.set_ends(area, head, here);
            }
            (false, _) => {
                self.set(area, head - 1, node_word::PREV, here);
                self.set_ends(area, here, tail);
            }
        }
    }

    /// Whether anything is to be written.
    pub(super) fn is_changed(&self) -> bool {
        !self.edits.is_empty()
    }

    /// Adds the unwritten changes to a batch: one WRITE for words that lie together.
    pub(super) fn add_writes(&mut self, area: &Area, batch: &mut Batch) {
        self.edits.sort_unstable();
        for run in self.edits.chunk_by(|one, next| one.0 + 1 == next.0) {
            let values: ArrayVec<u64, 8> = run.iter().map(|(_, value)| *value).take(8).collect();
            match values.as_slice() {
                [value] => {
                    batch.write_word(area.at(run[0].0), *value);
                }
                values => {
                    let mut buffer = Buffer::sized(8 * values.len());
                    buffer.words_mut().copy_from_slice(values);
                    batch.write(area.at(run[0].0), buffer);
                }
            }
        }
        self.edits.clear();
    }
}

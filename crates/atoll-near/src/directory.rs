//! What all compute nodes share: who they are, and the mode of every stripe.
//!
//! The directory is on the memory nodes. Its home is on one of them; each memory node whose objects
//! may be cached has a table of modes, so that a writer READs the mode in the batch of its WRITE.
//!
//! ```text
//! home    0  magic                              data
//!         8  options                            data
//!        16  tracking of owners                 atomics only
//!        24  mailbox of the manager             atomics only
//!        32  sessions with the manager so far   atomics only
//!        64  64 x address of a table of modes   data
//!       576  64 x member                        atomics only
//!      1088  512 x further client             atomics only
//!      5184  64 x client that buries        atomics only
//!      5696  64 x incarnation of a memory node  atomics only; see `absence`
//!      6208  end
//! table   0  incarnation                        atomics only
//!        64  stripes x (mode, owners)           atomics only
//! ```
//!
//! A stripe is a number: the hash of an object's address, among the stripes of the object's memory
//! node. It is the same on every compute node.

use crate::absence::FIRST_INCARNATION;
use crate::error::NearError;
use crate::mode::ModeWord;
use crate::object::Object;
use crate::protocol::{Promise, Protocol};
use crate::stripe::Belief;
use crate::verbs::read_word;
use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_pool::fields::{Fields, Numbers};

/// Most compute nodes at a time.
pub const MEMBERS_MAX: usize = 64;
/// Most clients besides the first of each compute node.
pub const CLIENTS_MAX: usize = 512;
/// Memory nodes that a directory can know.
pub(crate) const TABLES_MAX: usize = 64;
/// Of the directory and of near regions: "near" and a version.
pub(crate) const MAGIC: u64 = 0x0002_7261_656e_0001;
const OPTIONS: u64 = 8;
const TRACKING: u64 = 16;
const MANAGER: u64 = 24;
const SESSIONS: u64 = 32;
const TABLES: u64 = 64;
const MEMBERS: u64 = TABLES + 8 * TABLES_MAX as u64;
const CLIENTS: u64 = MEMBERS + 8 * MEMBERS_MAX as u64;
const BURIALS: u64 = CLIENTS + 8 * CLIENTS_MAX as u64;
const INCARNATIONS: u64 = BURIALS + 8 * MEMBERS_MAX as u64;
const HOME_BYTES: u64 = INCARNATIONS + 8 * TABLES_MAX as u64;
const _: () = assert!(CLIENTS == 1088 && BURIALS == 5184 && INCARNATIONS == 5696 && HOME_BYTES == 6208);

const STRIPES_MIN: u32 = 1;
const STRIPES_MAX: u32 = 1 << 28;

/// `log2 of stripes | protocol | promise | cached at first | owners from`.
const FIELDS: Fields<5> = Fields::new([8, 8, 8, 1, 8]);
/// Bytes of a table before its stripes.
const TABLE_HEADER_BYTES: u64 = 64;
/// Bytes of a stripe in a table.
const ENTRY_BYTES: u64 = 16;
const OWNERS: u64 = 8;
const PROMISES: Numbers<Promise, 2> = Numbers([(1, Promise::Regular), (2, Promise::Linearizable)]);

/// What all compute nodes agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Stripes of each memory node, a power of two; 65 536 by default. Each takes 16 bytes of the
    /// memory node, which every newcomer READs once, and 64 bytes of every compute node. More
    /// stripes than objects that are written now and then keep these objects apart.
    pub stripes: u32,
    /// The protocol.
    pub protocol: Protocol,
    /// What reads promise.
    pub promise: Promise,
    /// Whether an object may be cached before anything is known of it; false by default, as in the
    /// paper. If it may, loads of reads gain and the first writes of an object cost more.
    pub cached_at_first: bool,
    /// From so many compute nodes on, writers tell only those that may have a copy: see `owners`.
    /// 33 by default, as in the paper (section 7.3): up to 32 it costs more than telling all. With
    /// [`Promise::Linearizable`] all are told.
    pub owners_from: u8,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            stripes: 1 << 16,
            protocol: Protocol::default(),
            promise: Promise::default(),
            cached_at_first: false,
            owners_from: 33,
        }
    }
}

impl DirectoryOptions {
    /// Bytes that a memory node has to lend for its table; the home lends [`Directory::HOME_BYTES`]
    /// besides.
    pub fn table_bytes(&self) -> u64 {
        TABLE_HEADER_BYTES + self.stripes_bytes()
    }

    /// Bytes of a table's stripes.
    pub(crate) fn stripes_bytes(&self) -> u64 {
        ENTRY_BYTES * u64::from(self.stripes)
    }

    fn check(&self) -> Result<(), NearError> {
        if !self.stripes.is_power_of_two() || !(STRIPES_MIN..=STRIPES_MAX).contains(&self.stripes) {
            let wanted = "a power of two from 1 to 268435456";
            return Err(NearError::Option { what: "the number of stripes", found: self.stripes.into(), wanted });
        }
        let may_be_linearizable = matches!(self.protocol, Protocol::Difache | Protocol::CmCache);
        if self.promise == Promise::Linearizable && !may_be_linearizable {
            let (what, found) = ("the protocol of linearizable reads", Protocol::NUMBERS.number(self.protocol));
            return Err(NearError::Option { what, found, wanted: "difache or cmcache" });
        }
        Ok(())
    }
}

/// A stripe of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stripe {
    /// Its number among those of all memory nodes.
    pub(crate) number: u64,
    /// Its mode in the directory.
    pub(crate) mode_at: Address,
}

impl Stripe {
    /// Its memory node.
    pub(crate) fn node(&self) -> u8 {
        self.mode_at.memory_node().expect("a table is on a memory node")
    }

    /// Its owners in the directory.
    pub(crate) fn owners_at(&self) -> Address {
        self.mode_at.add(OWNERS)
    }
}

/// The table of modes of a memory node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    at: Address,
    /// The number of its first stripe.
    first: u64,
}

impl Table {
    /// Its memory node.
    pub(crate) fn node(&self) -> u8 {
        self.at.memory_node().expect("a table is on a memory node")
    }

    /// The incarnation of the memory node that has it.
    pub(crate) fn incarnation_at(&self) -> Address {
        self.at
    }
}

/// A part of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Where its stripes are.
    pub(crate) at: Address,
    pub(crate) bytes: u64,
    /// The number of its first stripe.
    first: u64,
}

impl Part {
    /// Its stripes.
    pub(crate) fn stripes(self) -> impl Iterator<Item = Stripe> {
        let entries = 0..self.bytes / ENTRY_BYTES;
        entries.map(move |entry| Stripe { number: self.first + entry, mode_at: self.at.add(ENTRY_BYTES * entry) })
    }

    /// Its stripes, each with the word of its mode.
    pub(crate) fn modes(self, words: &[u64]) -> impl Iterator<Item = (Stripe, u64)> {
        self.stripes().zip(words.iter().copied().step_by(ENTRY_BYTES as usize / 8))
    }
}

/// The directory, as one client has it open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    home: Address,
    options: DirectoryOptions,
    /// By memory node, its table; `None` for a node whose objects are not cached.
    tables: Vec<Option<Address>>,
}

impl Directory {
    /// Bytes of the home, without its memory node's table.
    pub const HOME_BYTES: u64 = HOME_BYTES;

    /// Creates a directory in memory that is zero, and that no other client uses. `home` has
    /// [`Directory::HOME_BYTES`]; each table has [`DirectoryOptions::table_bytes`], on the memory
    /// node whose objects it is for.
    ///
    /// # Errors
    /// [`NearError::Option`], or a verb's error; then the memory holds no directory.
    ///
    /// # Panics
    /// If two tables are on one memory node, or one is on a compute node.
    pub async fn create<E: Endpoint>(
        endpoint: &E,
        home: Address,
        tables: &[Address],
        options: DirectoryOptions,
    ) -> Result<Self, NearError> {
        options.check()?;
        let mut addresses = Buffer::sized(8 * TABLES_MAX);
        let mut by_node = vec![None; TABLES_MAX];
        for table in tables {
            let node = usize::from(table.memory_node().expect("a table is on a memory node"));
            assert!(by_node[node].is_none(), "one table a memory node");
            (by_node[node], addresses.words_mut()[node]) = (Some(*table), Self::table_word(*table));
        }
        let packed = FIELDS.pack([
            options.stripes.ilog2().into(),
            Protocol::NUMBERS.number(options.protocol),
            PROMISES.number(options.promise),
            options.cached_at_first.into(),
            options.owners_from.into(),
        ]);
        for table in tables {
            let mut batch = Batch::new();
            batch.write_word(*table, FIRST_INCARNATION);
            endpoint.post(&mut batch).await?;
        }
        let mut incarnations = Buffer::sized(8 * TABLES_MAX);
        incarnations.words_mut().fill(FIRST_INCARNATION);
        let mut batch = Batch::new();
        batch.write(home.add(INCARNATIONS), incarnations);
        batch.write(home.add(TABLES), addresses);
        batch.write_word(home.add(OPTIONS), packed);
        batch.write_word(home, MAGIC);
        endpoint.post(&mut batch).await?;
        Ok(Self { home, options, tables: by_node })
    }

    /// Opens the directory at `home`.
    ///
    /// # Errors
    /// [`NearError::NoDirectory`] if the words there are none.
    pub async fn open<E: Endpoint>(endpoint: &E, home: Address) -> Result<Self, NearError> {
        if read_word(endpoint, home).await? != MAGIC {
            return Err(NearError::NoDirectory { what: "its first word is another" });
        }
        let mut batch = Batch::new();
        let options = batch.read_word(home.add(OPTIONS));
        let addresses = batch.read(home.add(TABLES), Buffer::sized(8 * TABLES_MAX));
        endpoint.post(&mut batch).await?;
        let [stripes_log2, protocol, promise, cached_at_first, owners_from] = FIELDS.unpack(batch.word(options));
        let protocol = Protocol::NUMBERS.value(protocol);
        let protocol = protocol.ok_or(NearError::NoDirectory { what: "its protocol is unknown" })?;
        let promise = PROMISES.value(promise).ok_or(NearError::NoDirectory { what: "its promise is unknown" })?;
        let stripes = u32::try_from(stripes_log2).ok().and_then(|log2| 1_u32.checked_shl(log2));
        let stripes = stripes.ok_or(NearError::NoDirectory { what: "its number of stripes is not valid" })?;
        let (cached_at_first, owners_from) = (cached_at_first == 1, owners_from as u8);
        let options = DirectoryOptions { stripes, protocol, promise, cached_at_first, owners_from };
        options.check().map_err(|_| NearError::NoDirectory { what: "its options are not valid" })?;
        let addresses = batch.take(addresses);
        let tables: Vec<Option<Address>> = addresses.words().iter().map(|word| Self::table_of(*word)).collect();
        let is_valid = |(node, table): (usize, &Option<Address>)| match table {
            None => true,
            Some(at) => {
                let end = at.offset().saturating_add(options.table_bytes());
                let region_bytes = endpoint.region_bytes(node as u8);
                let is_on_node = at.memory_node() == Some(node as u8) && at.offset().is_multiple_of(8);
                is_on_node && (at.region() > 0 || region_bytes.is_none_or(|bytes| end <= bytes))
            }
        };
        if !tables.iter().enumerate().all(is_valid) {
            return Err(NearError::NoDirectory { what: "a table is not on its memory node" });
        }
        Ok(Self { home, options, tables })
    }

    /// A table's address as a word: 0 for none. An address has an odd bit to spare.
    fn table_word(at: Address) -> u64 {
        at.to_bits() | 1
    }

    fn table_of(word: u64) -> Option<Address> {
        (word & 1 == 1).then(|| Address::from_bits(word & !1))
    }

    /// Where it is.
    pub fn home(&self) -> Address {
        self.home
    }

    /// What all compute nodes agree on.
    pub fn options(&self) -> DirectoryOptions {
        self.options
    }

    /// The mode of a word in a table: the word 0 is that of the first mode.
    pub(crate) fn mode_of(&self, word: u64) -> ModeWord {
        ModeWord::from_bits(word ^ self.first_mode())
    }

    /// How a mode stands in a table.
    pub(crate) fn word_of(&self, mode: ModeWord) -> u64 {
        mode.bits() ^ self.first_mode()
    }

    /// What a compute node believes of a stripe while it was told nothing.
    pub(crate) fn first_belief(&self) -> Belief {
        Belief::of(self.mode_of(0))
    }

    fn first_mode(&self) -> u64 {
        if self.options.cached_at_first { ModeWord::FIRST_ON.bits() } else { 0 }
    }

    /// Stripes of all memory nodes together. A memory node without a table has none.
    pub(crate) fn stripes(&self) -> u64 {
        self.tables.iter().flatten().count() as u64 * u64::from(self.options.stripes)
    }

    /// The stripe of an object, by the hash of its address; `None` if its memory node has no table.
    pub(crate) fn stripe(&self, object: &Object, hash: u64) -> Option<Stripe> {
        let node = usize::from(object.at().memory_node()?);
        let table = (*self.tables.get(node)?)?;
        let within = hash & u64::from(self.options.stripes - 1);
        let tables_before = self.tables[..node].iter().flatten().count() as u64;
        let number = tables_before * u64::from(self.options.stripes) + within;
        Some(Stripe { number, mode_at: table.add(TABLE_HEADER_BYTES + ENTRY_BYTES * within) })
    }

    /// The tables of all memory nodes.
    pub(crate) fn tables(&self) -> impl Iterator<Item = Table> + '_ {
        let numbered = (0..).step_by(self.options.stripes as usize).zip(self.tables.iter().flatten());
        numbered.map(|(first, at)| Table { at: *at, first })
    }

    /// The table of a memory node; `None` if its objects are not cached.
    pub(crate) fn table(&self, node: u8) -> Option<Table> {
        self.tables().find(|table| table.node() == node)
    }

    /// A table in parts of at most so many bytes.
    pub(crate) fn parts(&self, table: Table, bytes: u64) -> impl Iterator<Item = Part> + use<> {
        let table_bytes = self.options.stripes_bytes();
        (0..table_bytes).step_by(bytes as usize).map(move |start| Part {
            at: table.at.add(TABLE_HEADER_BYTES + start),
            bytes: bytes.min(table_bytes - start),
            first: table.first + start / ENTRY_BYTES,
        })
    }

    /// The incarnation of a memory node that clients may use.
    pub(crate) fn incarnation_at(&self, node: u8) -> Address {
        self.home.add(INCARNATIONS + 8 * u64::from(node))
    }

    /// Where the client that buries the member of a place writes its identity.
    pub(crate) fn burial_at(&self, place: usize) -> Address {
        debug_assert!(place < MEMBERS_MAX);
        self.home.add(BURIALS + 8 * place as u64)
    }

    pub(crate) fn client_at(&self, place: usize) -> Address {
        debug_assert!(place < CLIENTS_MAX);
        self.home.add(CLIENTS + 8 * place as u64)
    }

    /// How writers find the compute nodes that they tell.
    pub(crate) fn tracking_at(&self) -> Address {
        self.home.add(TRACKING)
    }

    /// Where the manager writes its mailbox.
    pub(crate) fn manager_at(&self) -> Address {
        self.home.add(MANAGER)
    }

    /// How many sessions clients have begun with the manager.
    pub(crate) fn sessions_at(&self) -> Address {
        self.home.add(SESSIONS)
    }

    pub(crate) fn member_at(&self, place: usize) -> Address {
        debug_assert!(place < MEMBERS_MAX);
        self.home.add(MEMBERS + 8 * place as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_of_memory_nodes_are_apart_and_modes_are_on_the_object_s_node() {
        let options = DirectoryOptions { stripes: 8, ..DirectoryOptions::default() };
        let mut tables = vec![None; TABLES_MAX];
        (tables[0], tables[2]) = (Some(Address::new(0, 0, 4096)), Some(Address::new(2, 0, 64)));
        let directory = Directory { home: Address::new(0, 0, 0), options, tables };
        let object = |node| Object::new(Address::new(node, 0, 512), 8);
        assert_eq!(directory.stripes(), 16);
        assert_eq!(directory.stripe(&object(1), 3), None);
        let first = directory.stripe(&object(0), 8 + 3).expect("node 0 has a table");
        assert_eq!((first.number, first.mode_at), (3, Address::new(0, 0, 4096 + 64 + 48)));
        let third = directory.stripe(&object(2), 3).expect("node 2 has a table");
        assert_eq!((third.number, third.mode_at), (11, Address::new(2, 0, 64 + 64 + 48)));
    }
}

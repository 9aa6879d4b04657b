//! Access control: users, what they may do, and which of them a connection is.
//!
//! | module | concept |
//! |---|---|
//! | `catalog` | the commands and categories that rules name |
//! | `commands` | the commands that a selector permits |
//! | `selector` | a selector: commands, with the keys and channels that they may be run on |
//! | [`user`] | a user: its passwords and selectors |
//! | `password` | passwords, as hashes |
//! | `users` | the users of a server |
//! | `standing` | what a connection may do |
//! | `log` | what was refused |
//! | `file` | users in a file |
//!
//! A connection remembers at which version of the users it may do everything. So a command of such
//! a connection costs one comparison here. Every change of a user makes a new version, and a
//! connection looks its user up again before its next command.
//!
//! | when | what is checked |
//! |---|---|
//! | a command arrives | that the peer has authenticated; the command, its keys, its channels |
//! | a command behind MULTI | the same, and again when EXEC runs it |
//! | a script | the script's keys, when it arrives; each command that it calls |

mod catalog;
mod commands;
mod file;
mod log;
mod password;
mod selector;
mod standing;
pub mod user;
mod users;

pub(crate) use catalog::{CATEGORIES, categories, categories_within, is_command};
pub use file::FileError;
pub(crate) use file::{line, read, write};
pub(crate) use log::{Happened, Reason};
pub(crate) use password::Password;
pub(crate) use standing::{Standing, admit, note};
pub(crate) use users::{DEFAULT, Named, Users};

/// The most bytes of a user's name.
pub(crate) const NAME_BYTES_MAX: usize = 256;
/// The most bytes of the rules of one change, and of a user.
pub const RULES_BYTES_MAX: usize = 64 << 10;
/// The most patterns of keys in a selector, and of channels.
pub(crate) const PATTERNS_MAX: usize = 1024;
/// The most users.
pub(crate) const USERS_MAX: usize = 10_000;

/// Why a rule does not change a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It is no rule, or its pattern has blanks.
    #[error("Syntax error")]
    Syntax,
    /// There is no such command or category.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// All keys are permitted already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns"
    )]
    KeysAfterAll,
    /// All channels are permitted already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
         Try 'resetchannels' to start with an empty list of channels"
    )]
    ChannelsAfterAll,
    /// The user does not have this password.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// It is no SHA-256 in lower-case digits.
    #[error("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")]
    BadHash,
    /// A subcommand is permitted or not, whatever follows it.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgOfSubcommand,
    /// Within parentheses it could not be written into a file.
    #[error("A rule within parentheses can have no quotes, and no parenthesis at its end")]
    Unwritable,
    /// The selector has as many patterns as one may have.
    #[error("A selector has at most 1024 patterns of keys and 1024 of channels")]
    TooManyPatterns,
    /// The user or the rules have more than [`RULES_BYTES_MAX`] bytes.
    #[error("A user and its rules have at most 64 KiB")]
    TooLong,
}

const _: () = assert!(PATTERNS_MAX == 1024 && RULES_BYTES_MAX == 64 << 10, "the errors name the limits");

/// Why a command may not run. Of two, the greater came nearer to be permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denial {
    /// The peer must authenticate first.
    Stranger,
    /// The command itself is not permitted.
    Command,
    /// This argument is a key that is not.
    Key(usize),
    /// This argument is a channel that is not.
    Channel(usize),
}

/// Whether a text has blanks or a NUL, as neither names nor patterns may have.
pub(crate) fn has_blanks(text: &[u8]) -> bool {
    text.iter().any(|byte| *byte == 0 || super::resp::is_blank(*byte))
}

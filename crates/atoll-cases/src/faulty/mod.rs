//! Cases in which things go wrong: clients die, stand still, lose their links, and new clients join
//! in their place.
//!
//! What must hold:
//!
//! | promise | judged in |
//! |---|---|
//! | Histories are linearizable. An operation of a dead client may have happened or not. | `run` |
//! | No client waits for ever. | `run`, by a bound on steps |
//! | Once the dead are shut out, one repair makes the pool sound. | `recovery` |
//! | The pool then takes as many objects as before. | `recovery` |

mod case;
mod recovery;
mod roles;
mod run;
mod state;

pub use case::FaultyCase;
pub use run::RunSummary;

//! `forge`, one program for all its suites: the engines are compiled once for them. What holds for
//! every engine is in the program `engines`.
//!
//! | module | what it shows |
//! |---|---|
//! | `large_objects` | promise 1 for values in chunks of their own |
//! | `protections` | every order of a protection and of the look for it |
//! | `crashes` | promise 4: each hole of its repair, opened, is seen |
//! | `holes` | each hole of the prototypes, opened, is seen |
//! | `torn_words` | the words of one READ are of different moments |
//! | `variants` | what is promised depends on none of its techniques |
//! | `glcache` | the learned rule |
//! | `growing` | the index grows while clients use it |
//! | `expiry` | the bytes of dead objects are used again |
//! | `fits` | what fits stays |
//! | `vacancies` | records in the places of dead ones: each guard, taken away, is missed |
//! | `ahead` | an evictor makes room ahead, and may die or stand still anywhere |
//! | `timed`, `round_trips` | what verbs cost, in virtual time |
//! | `processes` | shared memory, processes of several threads, their common history (`ticketed`) |
//!
//! `cargo test -p atoll-cases --test forge crashes::` runs one of them.

mod ahead;
mod crashes;
mod expiry;
mod fits;
mod glcache;
mod growing;
mod holes;
mod large_objects;
mod processes;
mod protections;
mod round_trips;
mod ticketed;
mod timed;
mod torn_words;
mod vacancies;
mod variants;

//! Rare orders, made on purpose: clients stop at a verb that the test names, and other clients act
//! meanwhile ([`Stops`]). Seeds meet these orders once in thousands of runs or never. What guards
//! against them is a line that no other test would miss.
//!
//! | module | order | guard |
//! |---|---|---|
//! | `both` | a client is shut out, and another joins, while a third repairs | looks at the registry before and after the descriptors |
//! | | a large object is replaced, and its chunks reused, while a change reads it | a look at the slot after that |
//! | `forge` | a group is closed while a cleaner reads its descriptor | contents read behind the swap |
//! | | a group is put back, or settled, while a repairer is about to steal it | the generation of what was put back |
//! | | a dead client's chunk is settled while a change protects it | a look at the protections |
//! | `table` | a block is published between the looks of a repairer, or of an emptier | the second look at the slots |
//! | | a block is in hands at the first look and named at the second | the first look at the cells |
//! | | a block is taken between the looks | the second look at the cells |
//! | | a client joins at the place whose cells are being settled | a look at the registry after the cells |
//! | | a chunk is emptied while an idle client has a block of it | clients look which chunks are emptied, and are told again |
//! | `holes`, `forge` | holes that seeds show too rarely | see there |
//!
//! How orders are made: `interruption` stops one client before every batch, `script` has a
//! director, and `blocks` is the vocabulary of the table.
//!
//! [`Stops`]: atoll_cases::Stops

mod blocks;
mod both;
mod forge;
mod holes;
mod interruption;
mod script;
mod table;

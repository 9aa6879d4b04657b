//! Rare orders, made on purpose: clients stop in front of a verb that the test names, and others act meanwhile ([`Stops`]). Seeds meet these
//! orders once in thousands of runs or never, and what guards against them is a line that no other test would miss.
//!
//! | order | what guards | test |
//! |---|---|---|
//! | a client is shut out, and another joins, while a third repairs | the looks at the registry before and after the descriptors | `a_repair_leaves_alone_who_comes_or_dies_meanwhile` |
//! | a large object is replaced, and its chunks used anew, while a change reads them | a look at the slot after that | `a_change_never_decides_by_chunks_that_another_large_object_has` |
//! | a group is closed while a cleaner reads its descriptor | the contents read behind the swap | `a_group_is_judged_by_what_its_descriptor_says_once_it_is_owned` |
//! | a group is put back while a repairer is about to steal it | the generation of what was put back | `a_group_that_was_put_back_is_not_stolen` |
//! | the same by another repairer | the same | `a_group_that_was_settled_is_not_stolen` |
//! | a dead client's chunk is settled while a change protects it | a look at the protections | `a_repair_frees_no_chunk_that_a_change_protects` |
//!
//! [`Stops`]: atoll_lab::simulated::Stops

mod both;
mod forge;
mod holes;
mod objects;
mod script;

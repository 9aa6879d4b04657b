//! `cliquemap`: what it promises on the simulated fabric (`sim`), and that each of its holes,
//! opened, is seen (`holes`).

mod holes;
mod sim;

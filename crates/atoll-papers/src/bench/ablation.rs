//! An ablation: an engine with one technique more, or less, from step to step.

/// A technique: its name, and what switches it.
pub type Technique<V> = (&'static str, fn(&mut V));

/// The first step, and a step for each technique. Every step keeps what was switched before it.
pub fn steps<V: Copy>(first: &str, mut variant: V, techniques: &[Technique<V>]) -> Vec<(String, V)> {
    let mut steps = vec![(first.to_owned(), variant)];
    for (name, switch) in techniques {
        switch(&mut variant);
        steps.push(((*name).to_owned(), variant));
    }
    steps
}

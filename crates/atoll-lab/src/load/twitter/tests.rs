//! Generated loads have the statistics of the table.

use super::*;
use crate::fixtures;
use crate::load::Statistics;

const REQUESTS_TRIED: u64 = 400_000;

#[test]
fn generated_loads_have_the_statistics_of_the_table() {
    let Some(folder) = fixtures::traces() else { return };
    let rows = table::read(&folder).unwrap();
    assert_eq!(rows.len(), 53);
    for row in rows {
        let load = Twitter::like(row.clone(), REQUESTS_TRIED, 1);
        let statistics = Statistics::of(&load, |_| ());
        println!(
            "{} alpha {:?} foreseen {:?} got {:?} exponent {} objects {} value {:?} of {}",
            row.cluster,
            row.alpha,
            load.population.alpha(),
            statistics.zipf.map(|f| f.alpha),
            load.population.exponent(),
            statistics.objects,
            statistics.value_bytes,
            row.value_bytes
        );
    }
}

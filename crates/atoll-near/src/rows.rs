//! The tables of the module headers, as tests have them. A row is a condition, and what is done
//! then.

use std::fmt::Debug;

/// A row: its words, whether a case is the row's, and what is done then.
pub(crate) type Row<C, A> = (&'static str, fn(&C) -> bool, A);

/// Exactly one row matches each case, the code does what that row says, and every row has a case.
pub(crate) fn follow<C: Debug, A: Copy + PartialEq + Debug>(
    rows: &[Row<C, A>],
    cases: impl IntoIterator<Item = C>,
    code: impl Fn(&C) -> A,
) {
    let mut seen = vec![0; rows.len()];
    for case in cases {
        let matching: Vec<usize> = (0..rows.len()).filter(|row| rows[*row].1(&case)).collect();
        let names: Vec<&str> = matching.iter().map(|row| rows[*row].0).collect();
        assert_eq!(matching.len(), 1, "{case:?} is in the rows {names:?}");
        assert_eq!(code(&case), rows[matching[0]].2, "{case:?}, row {names:?}");
        seen[matching[0]] += 1;
    }
    let unused: Vec<&str> = rows.iter().zip(seen).filter(|(_, seen)| *seen == 0).map(|(row, _)| row.0).collect();
    assert!(unused.is_empty(), "no case is in the rows {unused:?}");
}

#[test]
#[should_panic(expected = "is in the rows")]
fn a_case_of_two_rows_is_found() {
    follow(&[("small", |number: &u8| *number < 2, ()), ("even", |number| number.is_multiple_of(2), ())], [0], |_| ());
}

#[test]
#[should_panic(expected = "no case is in the rows")]
fn a_row_without_a_case_is_found() {
    follow(&[("small", |number: &u8| *number < 2, ()), ("large", |number| *number >= 2, ())], [0, 1], |_| ());
}

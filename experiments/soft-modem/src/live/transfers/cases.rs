//! The contexts in which files are transferred: those of the study's Tables 1 and 2 that are
//! threads, and hard reservations of its Table 3.

use punctual_model::Reservation;
use punctual_model::reservation::Enforcement;

use super::super::Error;
use super::super::context::Place;

/// One context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name in tables.
    pub name: String,
    /// The scheduling of the driver's thread.
    pub place: Place,
    /// True if there are no competitors.
    pub alone: bool,
}

/// Returns all contexts. Those that disturb the host most come last.
pub fn all() -> Vec<Case> {
    let case = |name: &str, place, alone| Case { name: name.to_owned(), place, alone };
    let reserved = |text: &str, enforcement: Enforcement| {
        let reservation: Reservation = text.parse().expect("a row of the tables");
        Case {
            name: format!("RES {reservation} {}", enforcement.name()),
            place: Place::Reserved(reservation, enforcement),
            alone: false,
        }
    };
    vec![
        case("THR ordinary, alone", Place::Ordinary, true),
        case("THR real-time", Place::RealTime, false),
        reserved("1ms/4ms", Enforcement::Soft),
        reserved("2ms/8ms", Enforcement::Soft),
        reserved("3ms/16ms", Enforcement::Soft),
        reserved("1ms/8ms", Enforcement::Soft),
        reserved("2ms/8ms", Enforcement::Hard),
        reserved("3ms/17ms", Enforcement::Hard),
        reserved("1ms/8ms", Enforcement::Hard),
        case("THR ordinary", Place::Ordinary, false),
    ]
}

/// Returns the contexts with these names, or all if there are no names.
pub fn chosen(names: &[String]) -> Result<Vec<Case>, Error> {
    let mut cases = all();
    if let Some(unknown) = names.iter().find(|name| cases.iter().all(|case| case.name != **name)) {
        let known: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        return Err(Error::NoSuchContext { name: unknown.clone(), known: known.join(", ") });
    }
    cases.retain(|case| names.is_empty() || names.contains(&case.name));
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_name_and_a_wrong_one_says_which_there_are() {
        assert_eq!(chosen(&[]).expect("all").len(), all().len());
        let found = chosen(&["RES 2ms/8ms hard".to_owned()]).expect("one of them");
        let reservation = "2ms/8ms".parse().expect("valid");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, Place::Reserved(reservation, Enforcement::Hard));
        let why = chosen(&["RES".to_owned()]).expect_err("no such").to_string();
        assert!(why.contains("\"RES\"") && why.contains("RES 3ms/17ms hard"), "{why}");
    }
}

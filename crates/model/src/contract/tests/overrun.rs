//! Tests of the overrun policies by their names in a contract.

use super::*;
use crate::Overrun;

#[test]
fn an_upcall_names_its_overrun_policy() {
    let upcall = |line: &str| {
        let head = "[[upcall]]\nname = \"u\"\nperiod = \"40ms\"\nbatch = 2\n";
        parse(&format!("{head}time_per_pdu = \"1ms\"\n{line}"))
    };
    assert_eq!(upcall("").expect("valid").upcalls[0].overrun(), Overrun::CatchUp);
    for (name, overrun) in Overrun::NAMES {
        let contract = upcall(&format!("overrun = \"{name}\"")).expect("valid");
        assert_eq!(contract.upcalls[0].overrun(), overrun);
    }
    let refused = upcall("overrun = \"drop\"").expect_err("no such policy").to_string();
    for said in [":6:11", "\"drop\"", "\"demote\""] {
        assert!(refused.contains(said), "{refused}");
    }
}

//! Tests of the text that is accepted as JSON.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use super::super::reader::{Value, find};
use super::super::{parse, reader};
use super::{good, refusal};
use crate::Task;
use crate::contract::MAX_ENTRIES;

/// A file as rt-app's own are written: comments, a comma too many, a repeated key, a key without
/// value.
const LIBERTIES: &str = r#"
/* a workload */ {
	"tasks" : { // here
		"a" : {
			"suspend",
			"run" : 10, "run":20 , /* twice */
			"yield" : ,
			"timer" : { "ref" : "unique", "period" : 1000, },
			"fork"
		},
	},
}
// the end"#;

/// Some editors write this mark. Places count it as one character.
#[test]
fn a_byte_order_mark_is_passed_over() {
    let marked = format!("\u{feff}{LIBERTIES}");
    assert_eq!(good(&marked).contract, good(LIBERTIES).contract);
    assert!(refusal("\u{feff}").contains("a value is missing"));
    assert!(refusal("\u{feff}\u{feff}{}").contains("a value is missing"));
}

#[test]
fn liberties_of_rt_app_are_taken() {
    let imported = good(LIBERTIES);
    let task = &imported.contract.tasks[0];
    assert_eq!((task.name(), task.wcet().as_nanos()), ("a", 30_000));
}

#[test]
fn keys_keep_their_order_and_their_number() {
    let root = reader::read(r#"{"b":1,"a":2,"b":3,"c"}"#).expect("good");
    let Value::Object(members) = root.value else { panic!("an object") };
    let keys: Vec<&str> = members.iter().map(|member| member.key.as_str()).collect();
    assert_eq!(keys, ["b", "a", "b", "c"]);
    assert_eq!(find(&members, "b").map(|first| first.node.value.clone()), Some(Value::Int(1)));
    assert_eq!(members[3].node.value, Value::Absent);
}

#[test]
fn values_are_those_of_json() {
    for (text, value) in [
        ("-12", Value::Int(-12)),
        ("9223372036854775807", Value::Int(i64::MAX)),
        ("9223372036854775808", Value::OtherNumber),
        ("1.5", Value::OtherNumber),
        ("1e3", Value::OtherNumber),
        ("true", Value::Bool(true)),
        ("False", Value::Bool(false)),
        ("null", Value::Null),
        ("[]", Value::List(vec![])),
        (r#""\"\\\/\b\f\n\r\t""#, Value::Text("\"\\/\u{8}\u{c}\n\r\t".into())),
        (r#""aé\u00e9\ud83d\ude00""#, Value::Text("aéé😀".into())),
    ] {
        assert_eq!(reader::read(text).expect("good").value, value, "{text}");
    }
}

#[test]
fn every_error_has_its_place() {
    for (text, wanted) in [
        ("", "1:1: a value is missing here, before the end of the file"),
        ("{\"a\":1} x", "1:9: the document has ended"),
        ("{\n  \"a\" 1}", "2:7: a colon belongs here, not \"1\""),
        ("{\"a\":1 \"b\":2}", "1:8: a comma or } belongs here, not \"\"\""),
        ("{\n\"a\":1", "1:1: what opens here is not closed; write }"),
        ("{\"a\":[1,", "1:6: this [ is not closed"),
        ("{\"a\":1,", "1:1: this { is not closed"),
        ("{a:1}", "1:2: a key in quotes or } belongs here, not \"a\""),
        ("{,}", "1:2: a key in quotes"),
        ("[,]", "1:2: a value is missing here, before \",\""),
        ("[1 2]", "1:4: a comma or ] belongs here"),
        ("/* é\n", "1:1: this comment is not closed"),
        ("{\"é\":\"x\n\"}", "1:6: this string is not closed on its line"),
        ("[\"\\x\"]", "1:3: JSON knows no such escape"),
        ("[\"\\u12\"]", "1:3: \\u takes four"),
        ("[\"\\ud83d\"]", "1:3: \\u takes four"),
        ("[\"\\ud83d\\u0041\"]", "1:3: \\u takes four"),
        ("[\"\\udc00\"]", "1:3: \\u takes four"),
        ("[\"\\", "1:3: JSON knows no such escape"),
        ("[-]", "1:2: \"-\" is not a number"),
        ("[1-2]", "1:2: \"1-2\" is not a number"),
        ("[yes]", "1:2: \"yes\" is no value; text needs quotes"),
        ("/", "1:1: a value is missing here, before \"/\""),
    ] {
        let message = refusal(text);
        assert!(message.starts_with(&format!("w.json:{wanted}")), "{text}\n{message}");
    }
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = "[".repeat(100_000);
    assert!(refusal(&deep).contains("1:34: more than 32 levels deep"), "{}", refusal(&deep));
    let many = format!("[{}]", "0,".repeat(300_000));
    assert!(refusal(&many).contains("more than 262144 values"));
}

#[test]
fn bytes_that_are_not_text_are_refused_with_their_place() {
    let error = parse("w.json", b"{\n\"\xc3\xa9\xff").expect_err("not UTF-8");
    assert_eq!((error.line, error.column), (2, 3));
}

/// A cheap substitute for the fuzzer: any change to a good workload yields a contract or an error
/// with a place in the file, and every note has a place too.
#[test]
fn mutilated_workloads_never_panic() {
    let good = LIBERTIES.as_bytes();
    let lines = LIBERTIES.lines().count();
    let check = |bytes: &[u8]| match parse("w.json", bytes) {
        Ok(imported) => {
            assert!(imported.contract.tasks.iter().all(|task| !task.wcet().is_zero()));
            for note in imported.notes {
                assert!((1..=lines + 1).contains(&note.line) && note.column >= 1);
            }
        }
        Err(error) => assert!((1..=lines + 1).contains(&error.line) && error.column >= 1),
    };
    for at in 0..good.len() {
        for byte in [0, b'"', b'{', b'}', b'[', b'9', b'-', b',', b'/', b'\n', 0xff, 0xc3] {
            let mut bytes = good.to_vec();
            bytes[at] = byte;
            check(&bytes);
        }
        check(&good[..at]);
        check(&[&good[..at], &good[at + 1..]].concat());
    }
}

/// The largest accepted file in one line: one pass over it finds all places.
#[test]
fn sixteen_thousand_threads_in_one_line() {
    let mut text = String::from("{\"tasks\":{");
    for at in 0..MAX_ENTRIES {
        text += &format!(
            "\"é{at}\":{{\"oops\",\"run\":1,\"timer\":{{\"ref\":\"unique\",\"period\":9}}}},"
        );
    }
    text += "}}";
    let imported = good(&text);
    assert_eq!(imported.contract.tasks.len(), MAX_ENTRIES);
    assert!(imported.notes.len() > MAX_ENTRIES);
    let last = imported.notes.last().expect("many");
    let at = text.rfind("\"oops\"").expect("there");
    assert_eq!((last.line, last.column), (1, text[..at].chars().count() + 1));
    let one_more = text.replace("\"é7\":{", "\"é7\":{\"instance\":2,");
    assert!(refusal(&one_more).contains("more than 16384 entries"));
    assert_eq!(imported.contract.tasks.iter().map(Task::name).next(), Some("é0"));
}

"""The effect of each switch, in a sentence, and the switches that the console sets."""

PURPOSES = {
    "healthCheckEnabled": "Whether beats and active checks change the health of instances.",
    "pushEnabled": "Whether changes are pushed to subscribers over UDP.",
    "distroEnabled": "A switch of Nacos that Rollcall ignores.",
    "lightBeatEnabled": "Whether clients may send short beats, without the instance's description.",
    "defaultInstanceEphemeral": "The kind of an instance that is registered without one.",
    "clientBeatInterval": "How often clients send a beat (ms).",
    "defaultCacheMillis": "How often clients without pushes ask for a list again (ms).",
    "defaultPushCacheMillis": "How often clients with pushes ask for a list again (ms).",
    "checkTimes": "Active checks in a row that must agree before the health changes.",
    "distroThreshold": "A switch of Nacos that Rollcall ignores.",
    "overriddenServerStatus": "A status for all members in place of their own; null removes it.",
    "limitedUrlMap": "Paths that get only a status as their answer, as JSON.",
    "httpHealthParams": "How often HTTP checks run: least and most (ms), and the factor between.",
    "tcpHealthParams": "How often TCP checks run: least and most (ms), and the factor between.",
    "pushJavaVersion": "The least version of Java clients that get pushes.",
    "pushGoVersion": "The least version of Go clients that get pushes.",
    "pushCVersion": "The least version of C clients that get pushes.",
    "pushPythonVersion": "The least version of Python clients that get pushes.",
}
EDITED = frozenset(PURPOSES) - {"distroEnabled", "distroThreshold"}
"""The switches that the console sets. It only shows the others: Rollcall ignores them, or they are set elsewhere."""

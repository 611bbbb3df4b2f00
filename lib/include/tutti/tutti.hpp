#pragma once

#include "tutti/allocation.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/collective.hpp"
#include "tutti/communicator.hpp"
#include "tutti/deadline.hpp"
#include "tutti/environment.hpp"
#include "tutti/error.hpp"
#include "tutti/operation.hpp"
#include "tutti/options.hpp"
#include "tutti/types.hpp"
#include "tutti/version.hpp"
#include "tutti/work.hpp"

/// Collective communication between the ranks of a job.
namespace tutti {}
